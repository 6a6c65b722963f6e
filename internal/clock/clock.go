// Package clock knows the time of a store between two of its answers.
package clock

import (
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// Bound knows the store's time as a lower bound: the last time that the store reported, plus what
// the steady clock of this machine has measured since, less what that clock may be too fast by. So
// nothing is due by the bound that is not due by the store, as long as the steady clock is faster
// than the store's by one part in Drift at most. It never goes back. If an answer shows that it is
// ahead, because a clock is worse or the store's stands still, it stands until the store's time is
// there again. It is safe for concurrent use. The zero Bound knows nothing.
//
// A machine that was suspended has a bound that is late until the next answer.
type Bound struct {
	mu   sync.Mutex
	last store.Time // was the store's time at the time at, or less
	at   time.Time
	most store.Time // which the bound was at least, when last was set back
	same bool
}

// Same says that the store's time goes on at least as fast as this process's steady clock. It is called
// before the bound is used.
func (b *Bound) Same() { b.same = true }

// Drift says by how much a steady clock may go faster than the store's: one part in so many.
// Systems adjust their clocks by 500 millionths at most.
const Drift = 2000

// Observe takes a time that the store has reported to a request that was sent at sent, or,
// if the request was repeated, was sent first. The zero time: that is not known.
func (b *Bound) Observe(sent time.Time, now store.Time) {
	at := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	bound := b.since(at)
	switch {
	case b.last == 0 || now >= bound:
		b.last, b.at = now, at
	case !sent.IsZero() && bound > now.Add(slower(at.Sub(sent), -1)):
		// The store's clock stood at now or before when the request was sent.
		b.most = max(b.most, bound)
		b.last, b.at = now, at
	}
}

// slower returns how much time has passed at least, if sign is 1, or at most, if it is -1, when the
// steady clock has measured d.
func slower(d time.Duration, sign time.Duration) time.Duration { return d - sign*((d+Drift-1)/Drift) }

func (b *Bound) since(at time.Time) store.Time {
	passed := at.Sub(b.at)
	if !b.same {
		passed = slower(passed, 1)
	}
	return b.last.Add(passed.Truncate(time.Microsecond)) // Add rounds up
}

// Now returns the bound.
func (b *Bound) Now() store.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.most, b.since(time.Now()))
}

const (
	// longestTimer bounds the timers: what is later than that is looked at again.
	longestTimer = time.Hour
	// alone is how long a timer is at most that the bound has passed without an answer of the store.
	// A longer one would be late by more than can be seen, for nothing: answers come meanwhile.
	alone = 2 * time.Second
)

// Until returns how long a timer has to run for a time of the store, or for an hour if that is
// shorter. The bound has passed the time by then, or will soon: the caller looks at it, and asks
// again. Answers of the store that come meanwhile let it pass sooner.
func (b *Bound) Until(at store.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at <= b.most {
		return time.Microsecond
	}
	now := b.since(time.Now()) // below the bound, while that stands
	d := min(max(at.Sub(now), 0), longestTimer)
	if d <= alone && !b.same {
		d += d / (Drift - 1)
	}
	return d + time.Microsecond
}
