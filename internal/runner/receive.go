package runner

import (
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Receive waits for messages.
type Receive struct {
	Call     Call
	Names    []string   // of messages, or UpdateBox of the names of updates
	Max      int        // messages at most; at least 1
	Deadline store.Time // 0: none
}

// mailbox holds the unconsumed messages of one name and who waits for them.
type mailbox struct {
	items     []store.Item // in the order of their numbers
	receivers []*op        // in the order of waiting; settled and closed ones are skipped
	hot       bool         // listed in Run.hotMail
	crowd     int          // see weed
}

// UpdateBox returns the name under which updates of a name are received.
func UpdateBox(name string) string { return updatePrefix + name }

const updatePrefix = "\x00" // no message's name begins so

// shownNames are the names of messages and updates as users know them.
func shownNames(names []string) []string {
	names = slices.Clone(names)
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], updatePrefix)
	}
	return names
}

// Receive waits for messages and returns them, oldest first. With a deadline it
// returns when Max are there, or at the deadline those that were sent by then;
// none is ErrTimeout. Without one it returns as soon as there is any.
func (b *Branch) Receive(spec Receive) ([]stored.Message, error) {
	if err := b.Enter(spec.Call); err != nil {
		return nil, err
	}
	o := b.receiveOp(spec)
	err := b.waitOp(spec.Call, o)
	return o.messages, err
}

func (b *Branch) receiveOp(spec Receive) *op {
	o := b.request(new(op), spec.Call, store.KindReceive)
	o.receive, o.deadline = &spec, spec.Deadline
	if o.rec != nil && o.rec.Wake != 0 {
		o.deadline = o.rec.Wake
	}
	return o
}

func (r *Run) mailboxOf(name string) *mailbox {
	mb := r.mail[name]
	if mb == nil {
		mb = &mailbox{}
		r.mail[name] = mb
	}
	return mb
}

func (mb *mailbox) deliver(r *Run, it store.Item) {
	at := len(mb.items)
	for at > 0 && mb.items[at-1].No > it.No {
		at--
	}
	mb.items = slices.Insert(mb.items, at, it)
	r.heatMail(mb)
}

func (r *Run) heatMail(mb *mailbox) {
	if !mb.hot {
		mb.hot = true
		r.hotMail = append(r.hotMail, mb)
	}
}

func (r *Run) startReceive(o *op) {
	for _, name := range o.receive.Names {
		mb := r.mailboxOf(name)
		mb.weed()
		mb.receivers = append(mb.receivers, o)
		r.heatMail(mb)
	}
	if o.deadline != 0 {
		r.setTimer(o, o.deadline)
		r.register(o)
	}
}

// weed removes receivers that wait no more, now and then, like heap.Min.Weed: many
// may have waited in vain behind one that still does.
func (mb *mailbox) weed() {
	if len(mb.receivers) >= mb.crowd {
		mb.receivers = slices.DeleteFunc(mb.receivers, func(o *op) bool { return o.Settled() || o.closed })
		mb.crowd = 2*len(mb.receivers) + 64
	}
}

// receiver returns who has waited longest, or nil.
func (mb *mailbox) receiver() *op {
	for len(mb.receivers) > 0 {
		if o := mb.receivers[0]; !o.Settled() && !o.closed {
			return o
		}
		mb.receivers = mb.receivers[1:]
	}
	return nil
}

// matchMail hands over the match with the oldest message, if there is one, to
// who has waited longest for it. It reports whether there was.
func (r *Run) matchMail() bool {
	var best *op
	var oldest store.ItemNo
	keep := r.hotMail[:0]
	for _, mb := range r.hotMail {
		o := mb.receiver()
		if o == nil || len(mb.items) == 0 || !r.enough(o) {
			mb.hot = false
			continue
		}
		keep = append(keep, mb)
		if best == nil || mb.items[0].No < oldest {
			best, oldest = o, mb.items[0].No
		}
	}
	clear(r.hotMail[len(keep):])
	r.hotMail = keep
	if best == nil {
		return false
	}
	r.takeMail(best)
	return true
}

// enough reports whether the receive need not wait for more messages.
func (r *Run) enough(o *op) bool {
	need := 1
	if o.deadline != 0 {
		need = o.receive.Max
	}
	for _, name := range o.receive.Names {
		for i := range r.mailboxOf(name).items {
			if !o.inTime(&r.mailboxOf(name).items[i]) {
				break
			}
			if need--; need == 0 {
				return true
			}
		}
	}
	return false
}

// inTime reports whether a message was sent by the deadline of a receive. One
// that was sent later does not end the wait: only a timer knows that the inbox
// was read to the deadline.
func (o *op) inTime(it *store.Item) bool {
	return (o.deadline == 0 || it.Sent <= o.deadline) && !o.Late(it.Sent)
}

// takeMail hands over to a receive the oldest messages that were sent by its
// deadline and fit into one value, or, if there is none, the timeout.
func (r *Run) takeMail(o *op) {
	for size := 0; len(o.messages) < o.receive.Max; {
		var from *mailbox
		for _, name := range o.receive.Names {
			mb := r.mailboxOf(name)
			if len(mb.items) > 0 && o.inTime(&mb.items[0]) && (from == nil || mb.items[0].No < from.items[0].No) {
				from = mb
			}
		}
		if from == nil {
			break
		}
		it := from.items[0]
		if size += len(it.Value); o.messages != nil && size > r.limits.Value {
			break
		}
		from.items[0] = store.Item{}
		from.items = from.items[1:]
		o.messages = append(o.messages, stored.Message{No: it.No, Name: it.Name, ID: it.ID, Sent: it.Sent, Value: it.Value, Headers: it.Headers, Update: it.Kind == store.ItemUpdate})
		r.log.Consume(it.No, nil)
		if it.Kind == store.ItemUpdate && it.Verdict == nil {
			r.unanswered[it.No] = struct{}{}
		}
	}
	if o.messages == nil {
		o.failure = &stored.Failure{Code: stored.CodeTimeout, Message: "no message by " + o.deadline.String()}
	}
	r.handOver(o)
	r.heatNext(o)
}

// heatNext has the mailboxes of a receive that waits no more looked at, for who
// has waited behind it.
func (r *Run) heatNext(o *op) {
	for _, name := range o.receive.Names {
		if mb := r.mailboxOf(name); len(mb.items) > 0 {
			r.heatMail(mb)
		}
	}
}

// Promise is assigned once, from outside.
type Promise struct {
	op *op
}

// NewPromise makes a promise; its location identifies it.
func (b *Branch) NewPromise(call Call) (*Promise, error) {
	if err := b.Enter(call); err != nil {
		return nil, err
	}
	r := b.run
	o := b.request(new(op), call, promiseKind)
	r.promises[string(o.loc)] = o
	if o.in != nil {
		o.in.promises = append(o.in.promises, string(o.loc))
	}
	if o.rec == nil {
		r.expect(o)
	}
	return &Promise{o}, nil
}

// Location returns the promise's encoded location.
func (p *Promise) Location() string { return string(p.op.loc) }

// Secret returns 16 bytes that only the run can make for this promise.
func (p *Promise) Secret() [16]byte {
	return stored.PromiseSecret(&p.op.run.cfg.Run, string(p.op.loc), p.op.generation)
}

// madeIn returns the generation in which the promise at loc was made, or will be.
func (r *Run) madeIn(loc string) int {
	if o := r.promises[loc]; o != nil {
		return o.generation
	}
	if rec := r.replay.records[loc]; rec != nil {
		return rec.Generation
	}
	return r.cfg.Run.Generation
}

// AwaitPromise waits until the promise is assigned. A *Failure is what it was
// rejected with. A settled promise gives its value also in a cancelled branch.
func (b *Branch) AwaitPromise(call Call, p *Promise) ([]byte, error) {
	err := b.Check(call)
	if err == nil && !p.op.Settled() {
		err = b.Refuse(call)
	}
	if err != nil {
		return nil, err
	}
	err = b.waitOp(call, p.op)
	return p.op.value, err
}

// heat lists a promise that is awaited and whose resolution is there.
func (r *Run) heat(o *op) {
	if _, ok := r.resolved[string(o.loc)]; ok && r.live && !o.Settled() {
		r.hot = append(r.hot, o)
	}
}

// matchPromise hands over one resolution. It reports whether there was one.
func (r *Run) matchPromise() bool {
	for i := 0; i < len(r.hot); {
		o := r.hot[i]
		it, ok := r.resolved[string(o.loc)]
		if ok && !o.Settled() && o.Late(it.Sent) {
			i++
			continue
		}
		r.hot = without(r.hot, i)
		if !ok || o.Settled() || !o.IsAwaited() {
			continue
		}
		delete(r.resolved, string(o.loc))
		r.log.Consume(it.No, nil)
		o.value = it.Value
		if it.Failed {
			failure, err := stored.DecodeFailure(it.Value)
			if err != nil {
				failure = &stored.Failure{Code: stored.CodeEncoding, Message: err.Error()}
			}
			o.value, o.failure = nil, failure
		}
		r.handOver(o)
		return true
	}
	return false
}
