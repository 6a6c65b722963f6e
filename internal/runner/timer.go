package runner

import "github.com/stet-run/stet/store"

// timer is a time at which something is due for an operation. Timers of
// operations that are settled, closed or due at another time by now are skipped.
type timer struct {
	at store.Time
	op *op
}

// Timer is a case of a Select that wins at a time.
type Timer struct {
	Call Call
	At   store.Time
}

func (b *Branch) timerOp(call Call, kind store.Kind, at store.Time) *op {
	o := b.request(new(op), call, kind)
	o.deadline = at
	if o.rec != nil && o.rec.Wake != 0 {
		o.deadline = o.rec.Wake // fixed at the first call
	}
	return o
}

func (r *Run) startTimer(o *op) {
	r.setTimer(o, o.deadline)
	r.register(o)
}

// register writes down an operation that waits for long, with its deadline.
func (r *Run) register(o *op) {
	if !o.slot.Written() && o.deadline >= r.now+shortWait {
		r.write(o, store.Entry{State: store.Open, Wake: o.deadline, Started: r.now})
	}
}

func (r *Run) setTimer(o *op, at store.Time) {
	r.timers.Weed(timer.matters)
	r.timers.Push(timer{at, o})
}

// matters reports whether something is due for the operation at the time.
func (t timer) matters() bool {
	o := t.op
	switch {
	case o.Settled(), o.closed, o.step != nil && o.queued:
		return false
	case o.pass != nil:
		return o.pass.until == t.at
	}
	return o.deadline == t.at
}

// firstTimer returns the earliest timer that still matters.
func (r *Run) firstTimer() (timer, bool) {
	for r.timers.Len() > 0 {
		t := r.timers.Peek()
		if t.matters() {
			return t, true
		}
		r.timers.Pop()
	}
	return timer{}, false
}

// againstInbox reports whether the operation's deadline stands against what comes
// by the inbox.
func (o *op) againstInbox() bool {
	return o.kind == store.KindReceive || o.kind == store.KindEvent || o.inbox
}

// fireTimer lets the earliest due timer act: by deadline, then by order of
// request. It reports whether it did anything.
func (r *Run) fireTimer() bool {
	t, ok := r.firstTimer()
	if !ok || t.at > r.bound {
		return false
	}
	if t.op.againstInbox() && t.at > r.inboxAt {
		return false // what was sent by then may not have been read yet
	}
	switch t.op.kind {
	case store.KindReceive:
		r.timers.Pop()
		r.takeMail(t.op)
	case store.KindEvent:
		r.timers.Pop()
		r.takeEvent(t.op)
	case store.KindStep, store.KindUndo:
		r.timers.Pop()
		if t.op.pass != nil {
			r.permitLate(t.op)
		} else {
			r.beginAttempt(t.op)
		}
	default:
		r.timers.Pop()
		r.handOver(t.op)
	}
	return true
}
