package runner

import (
	"time"

	"github.com/stet-run/stet/store"
)

// timerOp is a sleep, or the timer of a Select.
type timerOp struct {
	op
	inbox bool // it wins only against what the inbox held at its deadline
}

// Timer is a case of a Select that wins at a time.
type Timer struct {
	Call Call
	At   store.Time
}

// Sleep waits until the run's time plus d.
func (b *Branch) Sleep(call Call, d time.Duration) error {
	return b.SleepUntil(call, b.run.now.Add(d))
}

// SleepUntil waits until at. A time that is past is over at once.
func (b *Branch) SleepUntil(call Call, at store.Time) error {
	if err := b.Enter(call); err != nil {
		return err
	}
	return b.waitOp(call, &b.timerOp(call, store.KindSleep, at).op)
}

func (b *Branch) timerOp(call Call, kind store.Kind, at store.Time) *timerOp {
	o := new(timerOp)
	b.declare(&o.op, o, call, kind)
	o.deadline = o.deadlineOr(at)
	return o
}

// deadlineOr returns the recorded deadline, which was fixed at the first call, or at.
func (o *op) deadlineOr(at store.Time) store.Time {
	if o.rec != nil && o.rec.Wake != 0 {
		return o.rec.Wake
	}
	return at
}

func (o *timerOp) start() {
	if o.startsNow() {
		o.run.timers.set(o, o.deadline)
		o.register()
	}
}

func (o *timerOp) due()               { o.run.handOver(&o.op) }
func (o *timerOp) againstInbox() bool { return o.inbox }
func (o *timerOp) isDelay() bool      { return true }

// register writes down an operation that waits for long, with its deadline.
func (o *op) register() {
	if r := o.run; !o.slot.Written() && o.deadline >= r.now+shortWait {
		r.write(o, store.Entry{State: store.Open, Wake: o.deadline, Started: r.now})
	}
}

// dueAt returns when something is due for the operation.
func (o *op) dueAt() store.Time { return o.deadline }
