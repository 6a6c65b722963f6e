package journal

import (
	"time"

	"github.com/stet-run/stet/internal/heap"
	"github.com/stet-run/stet/store"
)

// Timed is an operation for which something is due at a time.
type Timed interface {
	Self() *Op
	// DueAt returns when something is due; 0: nothing is.
	DueAt() store.Time
	// Due lets what is due happen.
	Due()
	// AgainstInbox reports whether the deadline stands against what comes by the inbox.
	AgainstInbox() bool
	// IsDelay reports whether the operation waits for the time itself, and not until
	// then for another thing.
	IsDelay() bool
}

// Timers are the times at which something is due for live operations, by time and then
// by order of request. Those of operations that are settled, closed or due at another
// time by now are skipped.
type Timers struct {
	queue heap.Min[Timer]
	acted bool          // one has since TakeLate
	late  time.Duration // by how much, at most
}

// Timer is a time at which something is due for an operation.
type Timer struct {
	At store.Time
	Op Timed
}

// newTimers returns timers without one.
func newTimers() Timers {
	return Timers{queue: heap.Min[Timer]{Before: func(a, b Timer) bool {
		return a.At < b.At || a.At == b.At && a.Op.Self().ID < b.Op.Self().ID
	}}}
}

// Len returns how many times are kept.
func (t *Timers) Len() int { return t.queue.Len() }

// Set notes that something is due for an operation at a time.
func (t *Timers) Set(o Timed, at store.Time) {
	t.queue.Weed(Timer.matters)
	t.queue.Push(Timer{at, o})
}

// matters reports whether something is due for the operation at the time.
func (t Timer) matters() bool {
	o := t.Op.Self()
	return !o.Settled() && !o.Closed && t.Op.DueAt() == t.At
}

// First returns the earliest timer that still matters.
func (t *Timers) First() (Timer, bool) {
	for t.queue.Len() > 0 {
		first := t.queue.Peek()
		if first.matters() {
			return first, true
		}
		t.queue.Pop()
	}
	return Timer{}, false
}

// Next lets the earliest timer act if it is due by now, and by inboxAt if it stands
// against what comes by the inbox: what was sent by then may not have been read yet. It
// reports whether it did anything.
func (t *Timers) Next(now, inboxAt store.Time) bool {
	first, ok := t.First()
	if !ok || first.At > now || first.Op.AgainstInbox() && first.At > inboxAt {
		return false
	}
	t.queue.Pop()
	t.acted, t.late = true, max(t.late, now.Sub(first.At))
	first.Op.Due()
	return true
}

// TakeLate returns by how much the timers that have acted since it was called last were late,
// at most. ok is false if none has.
func (t *Timers) TakeLate() (late time.Duration, ok bool) {
	late, ok = t.late, t.acted
	t.late, t.acted = 0, false
	return late, ok
}

// DueAt returns the deadline.
func (o *Op) DueAt() store.Time { return o.Deadline }
