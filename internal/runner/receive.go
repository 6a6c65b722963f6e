package runner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/mail"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Receive waits for messages.
type Receive struct {
	Call     Call
	Names    []string   // of messages, or UpdateBox of the names of updates
	Max      int        // messages at most; at least 1
	Deadline store.Time // 0: none
	Check    Check      // of the values of messages
}

// Check says why the code has no use for a value that has arrived.
type Check = journal.Check

// receiveOp is a wait for messages. It takes effect when a branch waits for it.
type receiveOp struct {
	op
	spec     Receive
	messages []stored.Message
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
	err := o.Wait(&b.Branch, spec.Call)
	return o.messages, err
}

func (b *Branch) receiveOp(spec Receive) *receiveOp {
	o := &receiveOp{spec: spec}
	b.declare(&o.op, o, spec.Call, store.KindReceive)
	o.Deadline = o.DeadlineOr(spec.Deadline)
	return o
}

func (o *receiveOp) Start() {
	if !o.StartsNow() {
		return
	}
	o.run.mail.Add(o)
	if o.Deadline != 0 {
		o.run.j.Timers.Set(o, o.Deadline)
		o.Register()
	}
}

func (o *receiveOp) Withdraw() {
	if o.Started {
		o.run.mail.Left(o)
	}
	o.op.Withdraw()
}

func (o *receiveOp) Outcome(e store.Entry) store.Entry {
	if o.Failure == nil {
		e.Value = stored.EncodeReceipt(o.messages)
	}
	return e
}

func (o *receiveOp) Recall(value []byte) (err error) {
	o.messages, err = stored.DecodeReceipt(value)
	return err
}

func (o *receiveOp) Show(w *journal.Wait) {
	w.Names = shownNames(o.spec.Names)
	w.Update = len(o.spec.Names) > 0 && strings.HasPrefix(o.spec.Names[0], updatePrefix)
	w.EndsAt(o.Deadline)
}

// Waits reports whether the receive still waits.
func (o *receiveOp) Waits() bool { return !o.Settled() && !o.Closed }

// Names returns the names of the messages.
func (o *receiveOp) Names() []string { return o.spec.Names }

// Needs returns how many messages end the wait.
func (o *receiveOp) Needs() int {
	if o.Deadline != 0 {
		return o.spec.Max
	}
	return 1
}

// Takes reports whether a message was sent by the deadline. One that was sent later
// does not end the wait: only a timer knows that the inbox was read to the deadline.
func (o *receiveOp) Takes(it *store.Item) bool {
	return (o.Deadline == 0 || it.Sent <= o.Deadline) && !o.Late(it.Sent)
}

// Refuses reads the value of a message, and makes a dead letter of one that has expired or
// does not decode. Requests of updates are rejected by the code.
func (o *receiveOp) Refuses(it *store.Item) bool {
	if _, after := stored.SplitExpiry(it.Headers); after > 0 && o.run.j.Bound() >= it.Sent.Add(after) {
		return o.Op.Refuses(it, nil, func([]byte) error { return fmt.Errorf("expired %s after it was sent", after) })
	}
	if it.Size > 0 {
		value, err := o.run.cfg.FetchItem(it)
		if err != nil {
			o.run.j.Owner.Break(err)
			return false
		}
		it.Value, it.Size = value, 0
	}
	return it.Kind == store.ItemMessage && o.Op.Refuses(it, it.Value, o.spec.Check)
}

func (o *receiveOp) Due()               { o.Take() }
func (o *receiveOp) AgainstInbox() bool { return true }
func (o *receiveOp) IsDelay() bool      { return false }

// receives are the messages of a run and the operations that wait for them.
type receives struct{ mail.Boxes }

// next hands over the match with the oldest message to the receive that has waited longest
// for it. It reports whether there was one.
func (r *receives) next() bool {
	match := r.Match()
	if match == nil {
		return false
	}
	o := match.(*receiveOp)
	o.Take()
	return o.run.broken == nil
}

// take hands over the oldest messages that were sent by the deadline and fit into one
// value, or, if there is none, the timeout.
func (o *receiveOp) Take() {
	r := o.run
	taken := r.mail.Take(o, o.spec.Max, r.j.Limits.Value)
	if r.broken != nil {
		return // a value could not be read
	}
	for _, it := range taken {
		headers, _ := stored.SplitExpiry(it.Headers)
		o.messages = append(o.messages, stored.Message{
			No: it.No, Name: it.Name, ID: it.ID, Sent: it.Sent, Value: it.Value, Headers: headers,
			Update: it.Kind == store.ItemUpdate,
		})
		o.Came = it.Sent
		r.j.Log.Consume(it.No, nil)
		if it.Kind == store.ItemUpdate && it.Verdict == nil {
			r.updates.received(it.No)
		}
	}
	if o.messages == nil {
		o.Failure = &stored.Failure{Code: stored.CodeTimeout, Message: "no message by " + o.Deadline.String()}
		o.Came = o.Deadline
	}
	o.HandOver()
	r.mail.Left(o)
}
