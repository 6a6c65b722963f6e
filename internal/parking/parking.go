// Package parking keeps what rests in memory within a number of bytes: when there is too much, the items that have
// rested longest go; otherwise each goes after a time. It knows nothing of the items.
package parking

import "time"

// Lot is the items that rest now. It is not safe for concurrent use. New makes one.
type Lot[T comparable] struct {
	max, used int // bytes
	limit     time.Duration
	of        map[T]*space[T]
	ends      space[T] // a ring: next has rested longest, prev shortest
}

type space[T comparable] struct {
	item       T
	bytes      int
	since      time.Time
	prev, next *space[T]
}

// New returns an empty lot for items of at most so many bytes in all, each of which rests no longer than limit.
func New[T comparable](max int, limit time.Duration) *Lot[T] {
	l := &Lot[T]{max: max, limit: limit, of: map[T]*space[T]{}}
	l.ends.prev, l.ends.next = &l.ends, &l.ends
	return l
}

// Len returns how many rest.
func (l *Lot[T]) Len() int { return len(l.of) }

// Bytes returns how many bytes they have.
func (l *Lot[T]) Bytes() int { return l.used }

// Has reports whether an item rests.
func (l *Lot[T]) Has(item T) bool { return l.of[item] != nil }

// Park lets an item rest from now on, and returns the items that leave the lot because of it, in the order of
// leaving: those that have rested longest, or the item itself if it alone is too large.
func (l *Lot[T]) Park(item T, bytes int, now time.Time) (out []T) {
	l.Remove(item)
	if bytes > l.max {
		return []T{item}
	}
	s := &space[T]{item: item, bytes: bytes, since: now, prev: l.ends.prev, next: &l.ends}
	s.prev.next, s.next.prev = s, s
	l.of[item] = s
	for l.used += bytes; l.used > l.max; {
		oldest := l.ends.next.item
		l.Remove(oldest)
		out = append(out, oldest)
	}
	return out
}

// Remove takes an item out, if it is there.
func (l *Lot[T]) Remove(item T) {
	if s := l.of[item]; s != nil {
		s.prev.next, s.next.prev = s.next, s.prev
		l.used -= s.bytes
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
