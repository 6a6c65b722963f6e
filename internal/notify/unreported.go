package notify

import (
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

const (
	// unreportedFor is how long a run counts as one with items of a caller's transaction.
	unreportedFor = 10 * time.Minute
	// maxUnreported is how many such runs are known by their numbers. If there are more, each run is one.
	maxUnreported = 10_000
)

// Unreported are the runs to which this process has sent in transactions of the caller. Nobody
// reports when those are committed: a claim finds the items. What is sent to such a run
// afterwards waits for a claim too, so that it does not come first. The zero value has no runs.
// Its methods may be called concurrently.
type Unreported struct {
	mu    sync.Mutex
	until map[store.RunNo]time.Time
	all   time.Time // until then each run is one
}

// Add adds a run for 10 minutes.
func (u *Unreported) Add(run store.RunNo) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.until) >= maxUnreported {
		for run, until := range u.until {
			if !now.Before(until) {
				delete(u.until, run)
			}
		}
	}
	switch {
	case u.until == nil:
		u.until = map[store.RunNo]time.Time{}
	case len(u.until) >= maxUnreported:
		u.all = now.Add(unreportedFor)
		return
	}
	u.until[run] = now.Add(unreportedFor)
}

// Has reports whether a run may have items that no claim has found yet.
func (u *Unreported) Has(run store.RunNo) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.until) == 0 {
		return false
	}
	now := time.Now()
	return now.Before(u.until[run]) || now.Before(u.all)
}
