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
	return b.SleepUntil(call, b.run.j.Now().Add(d))
}

// SleepUntil waits until at. A time that is past is over at once.
func (b *Branch) SleepUntil(call Call, at store.Time) error {
	if err := b.Enter(call); err != nil {
		return err
	}
	return b.timerOp(call, store.KindSleep, at).Wait(&b.Branch, call)
}

func (b *Branch) timerOp(call Call, kind store.Kind, at store.Time) *timerOp {
	o := new(timerOp)
	b.declare(&o.op, o, call, kind)
	o.Deadline = o.DeadlineOr(at)
	return o
}

func (o *timerOp) Start() {
	if o.StartsNow() {
		o.run.j.Timers.Set(o, o.Deadline)
		o.Register()
	}
}

func (o *timerOp) Due() {
	o.Came = o.Deadline
	o.HandOver()
}

func (o *timerOp) AgainstInbox() bool { return o.inbox }
func (o *timerOp) IsDelay() bool      { return true }
