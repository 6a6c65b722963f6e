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
	err := b.waitOp(spec.Call, &o.op)
	return o.messages, err
}

func (b *Branch) receiveOp(spec Receive) *receiveOp {
	o := &receiveOp{spec: spec}
	b.declare(&o.op, o, spec.Call, store.KindReceive)
	o.deadline = o.deadlineOr(spec.Deadline)
	return o
}

func (o *receiveOp) start() {
	if !o.startsNow() {
		return
	}
	o.run.mail.Add(o)
	if o.deadline != 0 {
		o.run.timers.set(o, o.deadline)
		o.register()
	}
}

func (o *receiveOp) withdraw() {
	if o.started {
		o.run.mail.Left(o)
	}
	o.op.withdraw()
}

func (o *receiveOp) outcome(e *store.Entry) {
	if o.failure == nil {
		e.Value = stored.EncodeReceipt(o.messages)
	}
}

func (o *receiveOp) recall(value []byte) (err error) {
	o.messages, err = stored.DecodeReceipt(value)
	return err
}

func (o *receiveOp) show(w *Wait) {
	w.Names = shownNames(o.spec.Names)
	w.until(o.deadline)
}

// Waits reports whether the receive still waits.
func (o *receiveOp) Waits() bool { return !o.Settled() && !o.closed }

// Names returns the names of the messages.
func (o *receiveOp) Names() []string { return o.spec.Names }

// Needs returns how many messages end the wait.
func (o *receiveOp) Needs() int {
	if o.deadline != 0 {
		return o.spec.Max
	}
	return 1
}

// Takes reports whether a message was sent by the deadline. One that was sent later
// does not end the wait: only a timer knows that the inbox was read to the deadline.
func (o *receiveOp) Takes(it *store.Item) bool {
	return (o.deadline == 0 || it.Sent <= o.deadline) && !o.Late(it.Sent)
}

func (o *receiveOp) due()               { o.take() }
func (o *receiveOp) againstInbox() bool { return true }
func (o *receiveOp) isDelay() bool      { return false }

// nextMail hands over the match with the oldest message to the receive that has waited
// longest for it. It reports whether there was one.
func (r *Run) nextMail() bool {
	match := r.mail.Match()
	if match == nil {
		return false
	}
	match.(*receiveOp).take()
	return true
}

// take hands over the oldest messages that were sent by the deadline and fit into one
// value, or, if there is none, the timeout.
func (o *receiveOp) take() {
	r := o.run
	for _, it := range r.mail.Take(o, o.spec.Max, r.limits.Value) {
		o.messages = append(o.messages, stored.Message{
			No: it.No, Name: it.Name, ID: it.ID, Sent: it.Sent, Value: it.Value, Headers: it.Headers,
			Update: it.Kind == store.ItemUpdate,
		})
		r.log.Consume(it.No, nil)
		if it.Kind == store.ItemUpdate && it.Verdict == nil {
			r.updates.received(it.No)
		}
	}
	if o.messages == nil {
		o.failure = &stored.Failure{Code: stored.CodeTimeout, Message: "no message by " + o.deadline.String()}
	}
	r.handOver(&o.op)
	r.mail.Left(o)
}
