package runner

import (
	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Event waits for an event of a topic.
//
// It is an operation that takes effect when a branch waits for it: the turn
// registers the wait at the topic under a key that is used once, which is in the
// operation's entry from the same turn on. The topic answers with a delivery. The
// turn that hands that over has the whole event in its entry and, of a consumed
// one, acknowledges it. A wait that ends without its event is withdrawn in the turn
// that ends it, and its delivery, wherever that is then, is consumed and means
// nothing: the topic knows by the withdrawal that the event was not taken.
//
// So every key that was registered is acknowledged, taken or withdrawn, and
// registrations holds those that are not yet, also those that the code has not
// asked for.
type Event struct {
	Call     Call
	Topic    string
	Visible  Visibility
	Deadline store.Time // 0: none
}

// Visibility says which events a wait may be given. One that was given to the run
// before is not given again.
type Visibility uint8

const (
	// SinceRun: those published since the run was started.
	SinceRun Visibility = iota
	// SinceWait: those published since the wait began.
	SinceWait
	// Retained: all that the topic has.
	Retained
)

// eventOp is a wait for an event.
type eventOp struct {
	op
	spec  Event
	topic string // where it is registered; "": nowhere
	key   string
	given *event.Delivery // arrived; if it was not handed over, item is in the inbox
	item  store.ItemNo
	sent  store.Time // of the delivery
}

// Event waits for an event and returns it. With a deadline that wins the error is
// ErrTimeout.
func (b *Branch) Event(spec Event) (*event.Delivery, error) {
	if err := b.Enter(spec.Call); err != nil {
		return nil, err
	}
	o := b.eventOp(spec)
	err := o.Wait(&b.Branch, spec.Call)
	return o.given, err
}

func (b *Branch) eventOp(spec Event) *eventOp {
	o := &eventOp{spec: spec}
	b.declare(&o.op, o, spec.Call, store.KindEvent)
	o.Deadline = o.DeadlineOr(spec.Deadline)
	if o.Rec != nil && o.Rec.State == store.Open {
		b.run.topics.found(o)
	}
	return o
}

// start registers the wait, unless it is registered.
func (o *eventOp) Start() {
	if !o.StartsNow() {
		return
	}
	r := o.run
	if o.key != "" && o.topic != o.spec.Topic { // the code has another one by now
		r.j.Log.Send(event.Withdraw(o.topic, o.key))
		r.topics.done(o)
		o.key = ""
	}
	if o.key == "" {
		o.topic, o.key = o.spec.Topic, r.j.KeyFor(&o.Op)
		wait := event.Wait{Topic: o.topic, Key: o.key}
		r.j.Log.Send(event.Register(o.topic, o.key, r.topics.registrationOf(o)))
		o.Write(store.Entry{State: store.Open, Wake: o.Deadline, Started: o.Asked, Value: event.Encode(wait)})
		r.topics.registrations[o.key] = &registration{wait: wait, op: o}
	}
	if o.Deadline != 0 {
		r.j.Timers.Set(o, o.Deadline)
	}
	o.arrive()
}

// Withdraw ends a wait that was cancelled or has lost. While the run replays, a
// withdrawal that is recorded is durable; another is for when the run goes live.
func (o *eventOp) Withdraw() {
	switch {
	case o.key == "":
	case o.run.j.Live():
		o.run.topics.withdraw(o)
		o.Write(store.Entry{State: store.Withdrawn})
	default:
		o.Pend()
	}
}

func (o *eventOp) WithdrawLate() { o.Withdraw() }

func (o *eventOp) Outcome(e *store.Entry) {
	if o.Failure == nil {
		e.Value = event.Encode(o.given)
	}
}

func (o *eventOp) Recall(value []byte) error {
	d := new(event.Delivery)
	if err := event.Decode(value, d); err != nil {
		return err
	}
	o.given = d
	o.run.topics.hear(d)
	return nil
}

func (o *eventOp) Show(w *journal.Wait) {
	w.Topic = o.topic
	w.EndsAt(o.Deadline)
}

// arrive lists the wait if its event is there.
func (o *eventOp) arrive() {
	if o.given != nil && !o.Settled() {
		o.run.arrivals.events.Add(o)
	}
}

func (o *eventOp) Wanted() bool { return !o.Settled() && !o.Closed }
func (o *eventOp) IsLate() bool { return !o.inTime() }

// inTime reports whether the event that is there was sent to the run by the deadlines
// that it stands against.
func (o *eventOp) inTime() bool {
	return o.given != nil && (o.Deadline == 0 || o.sent <= o.Deadline) && !o.Late(o.sent)
}

func (o *eventOp) Due()               { o.Take() }
func (o *eventOp) AgainstInbox() bool { return true }
func (o *eventOp) IsDelay() bool      { return false }

// take hands over the event that is there, or the timeout.
func (o *eventOp) Take() {
	r := o.run
	if !o.inTime() {
		o.Failure = &stored.Failure{Code: stored.CodeTimeout, Message: "no event by " + o.Deadline.String()}
		r.topics.withdraw(o)
	} else {
		r.j.Log.Consume(o.item, nil)
		r.topics.done(o)
		r.topics.hear(o.given)
		if o.given.Event.Mode == event.Consumed {
			r.j.Log.Send(event.Ack(o.topic, o.key))
		}
	}
	o.HandOver()
}
