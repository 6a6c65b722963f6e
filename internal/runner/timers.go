package runner

import (
	"github.com/stet-run/stet/internal/heap"
	"github.com/stet-run/stet/store"
)

// timed is an operation for which something is due at a time.
type timed interface {
	self() *op
	// dueAt returns when something is due; 0: nothing is.
	dueAt() store.Time
	// due lets what is due happen.
	due()
	// againstInbox reports whether the deadline stands against what comes by the inbox.
	againstInbox() bool
	// isDelay reports whether the operation waits for the time itself, and not until
	// then for something else.
	isDelay() bool
}

// timers are the times at which something is due for live operations, by time and then
// by order of request. Those of operations that are settled, closed or due at another
// time by now are skipped.
type timers struct {
	queue heap.Min[timer]
}

type timer struct {
	at store.Time
	op timed
}

func newTimers() timers {
	return timers{heap.Min[timer]{Before: func(a, b timer) bool {
		return a.at < b.at || a.at == b.at && a.op.self().id < b.op.self().id
	}}}
}

func (t *timers) set(o timed, at store.Time) {
	t.queue.Weed(timer.matters)
	t.queue.Push(timer{at, o})
}

// matters reports whether something is due for the operation at the time.
func (t timer) matters() bool {
	o := t.op.self()
	return !o.Settled() && !o.closed && t.op.dueAt() == t.at
}

// first returns the earliest timer that still matters.
func (t *timers) first() (timer, bool) {
	for t.queue.Len() > 0 {
		first := t.queue.Peek()
		if first.matters() {
			return first, true
		}
		t.queue.Pop()
	}
	return timer{}, false
}

// next lets the earliest timer act if it is due by now, and by inboxAt if it stands
// against what comes by the inbox: what was sent by then may not have been read yet. It
// reports whether it did anything.
func (t *timers) next(now, inboxAt store.Time) bool {
	first, ok := t.first()
	if !ok || first.at > now || first.op.againstInbox() && first.at > inboxAt {
		return false
	}
	t.queue.Pop()
	first.op.due()
	return true
}
