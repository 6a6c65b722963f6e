package engine

import (
	"context"

	"github.com/cespare/xxhash/v2"

	"github.com/stet-run/stet/internal/activations"
	"github.com/stet-run/stet/internal/notify"
	"github.com/stet-run/stet/store"
)

// ErrPending says that a request stands and nobody has decided it yet.
var ErrPending = notify.ErrPending

// Slot returns the slot of a run's ID.
func (e *Engine) Slot(runID string) int { return int(xxhash.Sum64String(runID) % uint64(e.slots)) }

// Get returns a run with its input, output and waits.
func (e *Engine) Get(ctx context.Context, runID string) (store.Run, bool, error) {
	return e.get(ctx, store.Filter{IDs: []string{runID}, Limit: 1, Values: true})
}

// Head returns a run without its input, and without its result if it has succeeded: both may be large.
func (e *Engine) Head(ctx context.Context, runID string) (store.Run, bool, error) {
	return e.get(ctx, store.Filter{IDs: []string{runID}, Limit: 1, Values: true, Longest: -1})
}

func (e *Engine) get(ctx context.Context, f store.Filter) (store.Run, bool, error) {
	page, err := e.cfg.Store.List(ctx, f)
	if err != nil || len(page.Runs) == 0 {
		return store.Run{}, false, err
	}
	return page.Runs[0], true, nil
}

// Waiters returns what waits for ends, answers and feeds.
func (e *Engine) Waiters() *notify.Waiters { return e.waiters }

// Verdict is [notify.Waiters.Verdict].
func (e *Engine) Verdict(ctx context.Context, run store.RunNo, no store.ItemNo, itemID string) ([]byte, error) {
	return e.waiters.Verdict(ctx, run, no, itemID)
}

// ParentID returns the ID of the parent of a child that this process has in memory; "": it is not known here.
func (e *Engine) ParentID(child, parent store.RunNo) string {
	if x := e.executor.Load(); x != nil {
		return x.memory.ParentID(child, parent)
	}
	return ""
}

// inMemory reports whether this process has the run in memory, and so will say how it ends.
func (e *Engine) inMemory(runID string) bool {
	x := e.executor.Load()
	return x != nil && x.memory.Has(runID)
}

// sole returns the executor of this process if it owns the whole store, and nil otherwise.
func (e *Engine) sole() any {
	if x := e.executor.Load(); x != nil && x.member == nil {
		return x
	}
	return nil
}

// Stats returns what this engine has in memory now.
func (e *Engine) Stats() activations.Stats {
	s := activations.Stats{Shards: map[string]int{}}
	x := e.executor.Load()
	if x == nil {
		return s
	}
	s.Executing, s.Waiting, s.Committing = x.steps.Pool.Counts()
	s.Running, s.Parked = x.memory.Counts()
	s.Recovered = x.recovery.Last()
	for _, l := range x.shards.Now().Leases() {
		s.Shards[l.Shard.Group]++
	}
	return s
}

// bodies returns what this engine executes for long.
func (e *Engine) bodies() (long []store.Body) {
	if x := e.executor.Load(); x != nil {
		long = x.steps.Long()
	}
	return long
}

// Running reports whether Run or RunOnce is under way.
func (e *Engine) Running() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running
}

// Boot returns what tells this engine from those of other processes, and of other times.
func (e *Engine) Boot() string { return e.boot }
