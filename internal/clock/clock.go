// Package clock knows the time of a store between two of its answers.
package clock

import (
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// Bound knows the store's time as a lower bound: the last time that the store
// reported, plus what the monotonic clock has measured since. It is safe for concurrent use. The zero Bound knows
// nothing.
type Bound struct {
	mu   sync.Mutex
	last store.Time
	at   time.Time
}

// Observe takes a time that the store has reported.
func (b *Bound) Observe(now store.Time) {
	at := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == 0 || now > b.last.Add(at.Sub(b.at)) {
		b.last, b.at = now, at
	}
}

// Now returns the bound.
func (b *Bound) Now() store.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last.Add(time.Since(b.at))
}

// longestTimer bounds the timers: what is later than that is looked at again.
const longestTimer = time.Hour

// Until returns how long a timer has to run for a time of the store, or for an hour if that
// is shorter. It adds a microsecond, so that the bound has passed the time by then.
func (b *Bound) Until(at store.Time) time.Duration {
	return min(max(at.Sub(b.Now()), 0), longestTimer) + time.Microsecond
}
