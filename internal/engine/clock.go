package engine

import (
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// clock knows the store's time as a lower bound: the last time that the store
// reported, plus what the monotonic clock has measured since.
type clock struct {
	mu   sync.Mutex
	last store.Time
	at   time.Time
}

func (c *clock) observe(now store.Time) {
	at := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == 0 || now > c.last.Add(at.Sub(c.at)) {
		c.last, c.at = now, at
	}
}

func (c *clock) now() store.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.Add(time.Since(c.at))
}

// longestTimer bounds the timers of this package: what is later than that is looked at again.
const longestTimer = time.Hour

// until returns how long a timer has to run for a time of the store, or for an hour if that
// is shorter. It adds a microsecond, so that the bound has passed the time by then.
func (c *clock) until(at store.Time) time.Duration {
	return min(max(at.Sub(c.now()), 0), longestTimer) + time.Microsecond
}
