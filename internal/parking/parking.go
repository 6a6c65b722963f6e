// Package parking chooses which of the items that rest in memory go first. When there are
// too many of them it is one of those that have rested longest and are cheap to bring back;
// otherwise each goes after a time. It knows nothing of the items.
package parking

import "time"

// choice is how many of those that have rested longest are compared by their cost.
const choice = 16

// Lot is the items that rest now. It is not safe for concurrent use. New makes one.
type Lot[T comparable] struct {
	max   int
	limit time.Duration
	of    map[T]*space[T]
	ends  space[T] // a ring: next has rested longest, prev shortest
}

type space[T comparable] struct {
	item       T
	cost       int
	since      time.Time
	prev, next *space[T]
}

// New returns an empty lot in which at most max rest, and each no longer than limit.
func New[T comparable](max int, limit time.Duration) *Lot[T] {
	l := &Lot[T]{max: max, limit: limit, of: map[T]*space[T]{}}
	l.ends.prev, l.ends.next = &l.ends, &l.ends
	return l
}

// Len returns how many rest.
func (l *Lot[T]) Len() int { return len(l.of) }

// Has reports whether an item rests.
func (l *Lot[T]) Has(item T) bool { return l.of[item] != nil }

// Park lets an item rest from now on. If there are too many then, one is taken out and
// returned: the cheapest of those that have rested longest.
func (l *Lot[T]) Park(item T, cost int, now time.Time) (out T, full bool) {
	l.Remove(item)
	s := &space[T]{item: item, cost: cost, since: now, prev: l.ends.prev, next: &l.ends}
	s.prev.next, s.next.prev = s, s
	l.of[item] = s
	if len(l.of) <= l.max {
		return out, false
	}
	best := l.ends.next
	for s, n := best.next, 1; s != &l.ends && n < choice; s, n = s.next, n+1 {
		if s.cost < best.cost {
			best = s
		}
	}
	l.Remove(best.item)
	return best.item, true
}

// Remove takes an item out, if it is there.
func (l *Lot[T]) Remove(item T) {
	if s := l.of[item]; s != nil {
		s.prev.next, s.next.prev = s.next, s.prev
		delete(l.of, item)
	}
}

// Expired takes out and returns the items that have rested for the limit.
func (l *Lot[T]) Expired(now time.Time) []T {
	var out []T
	for s := l.ends.next; s != &l.ends && now.Sub(s.since) >= l.limit; s = l.ends.next {
		l.Remove(s.item)
		out = append(out, s.item)
	}
	return out
}

// Next returns in what time the next item expires. It reports false if none rests.
func (l *Lot[T]) Next(now time.Time) (time.Duration, bool) {
	s := l.ends.next
	if s == &l.ends {
		return 0, false
	}
	return l.limit - now.Sub(s.since), true
}
