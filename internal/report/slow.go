package report

import (
	"sync"
	"time"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
)

// SlowCode is how long the code of a run may execute without an operation before that is
// reported.
const SlowCode = 10 * time.Second

// slowStacks gives the stacks of all code that is slow at a time once. A process that is short of time
// has many such runs, and their stacks, for each of them, would take the rest of it.
type slowStacks struct {
	mu   sync.Mutex
	last time.Time
}

// take returns the stacks of the code of all runs, or "" if that was done less than SlowCode ago: what
// is slow now executed at that time, too.
func (s *slowStacks) take() string {
	s.mu.Lock()
	fresh := !s.last.IsZero() && time.Since(s.last) < SlowCode
	if !fresh {
		s.last = time.Now()
	}
	s.mu.Unlock()
	if fresh {
		return ""
	}
	return runner.Stacks()
}

// Slow reports that the code of a run has come to no operation for SlowCode.
func (r *Reporter) Slow(run *store.Run) {
	log := r.logOf(run)
	if stacks := r.slow.take(); stacks != "" {
		log = log.With("stacks", stacks)
	}
	log.Warn("workflow code has reached no operation for " + SlowCode.String())
}
