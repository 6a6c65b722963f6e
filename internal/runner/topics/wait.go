package topics

import (
	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/sched"
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
// An event of which the code has no use is acknowledged and becomes a dead letter. The turn
// that says so registers the wait again, under another key, behind that event.
//
// So every key that was registered is acknowledged, taken or withdrawn, and
// registrations holds those that are not yet, also those that the code has not
// asked for.
type Event struct {
	Call     sched.Call
	Topic    string
	Visible  Visibility
	Deadline store.Time // 0: none
	Check    journal.Check
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

// wait is a wait for an event.
type wait struct {
	journal.Op
	topics *Topics
	spec   Event
	topic  string // where it is registered; "": nowhere
	key    string
	given  *event.Delivery // arrived; if it was not handed over, item is in the inbox
	item   store.ItemNo
	sent   store.Time // of the delivery
	// refused is the number of the last broadcast event that did not decode; 0: none.
	refused store.ItemNo
}

// Event waits for an event, for the code of a branch, and returns it. With a deadline that
// wins the error is ErrTimeout.
func (t *Topics) Event(b *sched.Branch, spec Event) (*event.Delivery, error) {
	o := t.wait(b, spec)
	err := o.Wait(b, spec.Call)
	return o.given, err
}

// Op returns an operation that waits for an event, to wait for it beside others. Given
// returns the event.
func (t *Topics) Op(b *sched.Branch, spec Event) *journal.Op { return &t.wait(b, spec).Op }

// Given returns the event with which an operation of Op has been handed over.
func Given(o *journal.Op) *event.Delivery { return o.Is.(*wait).given }

func (t *Topics) wait(b *sched.Branch, spec Event) *wait {
	o := &wait{topics: t, spec: spec}
	t.j.Declare(b, &o.Op, o, spec.Call, store.KindEvent)
	o.Deadline = o.DeadlineOr(spec.Deadline)
	if o.Rec != nil && o.Rec.State == store.Open {
		t.found(o)
	}
	return o
}

// start registers the wait, unless it is registered.
func (o *wait) Start() {
	if !o.StartsNow() {
		return
	}
	j := o.J
	if o.key != "" && o.topic != o.spec.Topic { // the code has another one by now
		j.Log.Send(event.Withdraw(o.topic, o.key))
		o.topics.done(o)
		o.key = ""
	}
	if o.key == "" {
		o.register()
	}
	if o.Deadline != 0 {
		j.Timers.Set(o, o.Deadline)
	}
	o.arrive()
}

// register registers the wait at its topic.
func (o *wait) register() {
	j := o.J
	o.topic, o.key = o.spec.Topic, j.KeyFor(&o.Op)
	w := event.Wait{Topic: o.topic, Key: o.key, Refused: o.refused}
	j.Log.Send(event.Register(o.topic, o.key, o.topics.registrationOf(o)))
	o.Write(store.Entry{State: store.Open, Wake: o.Deadline, Started: o.Asked, Value: event.Encode(w)})
	o.topics.registrations[o.key] = &registration{wait: w, op: o}
}

// refuses makes a dead letter of a delivery that does not decode. It reports whether it
// does; the wait then stands at the topic again, behind that event.
func (o *wait) refuses(it *store.Item) bool {
	if !o.inTime() || !o.Refuses(it, o.given.Event.Value, o.spec.Check) {
		return false
	}
	if o.given.Event.Mode == event.Broadcast {
		o.refused = o.given.Event.Number
		o.topics.passes(o.topic, o.refused)
	}
	o.J.Log.Send(event.Ack(o.topic, o.key))
	o.topics.done(o)
	o.given = nil
	o.register()
	return true
}

// Withdraw ends a wait that was cancelled or has lost. While the run replays, a
// withdrawal that is recorded is durable; another is for when the run goes live.
func (o *wait) Withdraw() {
	switch {
	case o.key == "":
	case o.J.Live():
		o.topics.withdraw(o)
		o.Write(store.Entry{State: store.Withdrawn})
	default:
		o.Pend()
	}
}

func (o *wait) WithdrawLate() { o.Withdraw() }

func (o *wait) Outcome(e store.Entry) store.Entry {
	if o.Failure == nil {
		e.Value = event.Encode(o.given)
	}
	return e
}

func (o *wait) Recall(value []byte) error {
	d := new(event.Delivery)
	if err := event.Decode(value, d); err != nil {
		return err
	}
	o.given = d
	o.topics.hear(d)
	return nil
}

func (o *wait) Show(w *journal.Wait) {
	w.Topic = o.topic
	w.EndsAt(o.Deadline)
}

// arrive lists the wait if its event is there.
func (o *wait) arrive() {
	if o.given != nil && !o.Settled() {
		o.topics.arrived.Add(o)
	}
}

func (o *wait) Wanted() bool { return !o.Settled() && !o.Closed }
func (o *wait) IsLate() bool { return !o.inTime() }

// inTime reports whether the event that is there was sent to the run by the deadlines
// that it stands against.
func (o *wait) inTime() bool {
	return o.given != nil && (o.Deadline == 0 || o.sent <= o.Deadline) && !o.Late(o.sent)
}

func (o *wait) Due()               { o.Take() }
func (o *wait) AgainstInbox() bool { return true }
func (o *wait) IsDelay() bool      { return false }

// take hands over the event that is there, or the timeout.
func (o *wait) Take() {
	j := o.J
	if !o.inTime() {
		o.Failure = &stored.Failure{Code: stored.CodeTimeout, Message: "no event by " + o.Deadline.String()}
		o.topics.withdraw(o)
		o.Came = o.Deadline
	} else {
		o.Came = o.sent
		j.Log.Consume(o.item, nil)
		o.topics.done(o)
		o.topics.hear(o.given)
		if o.given.Event.Mode == event.Consumed {
			j.Log.Send(event.Ack(o.topic, o.key))
		}
	}
	o.HandOver()
}
