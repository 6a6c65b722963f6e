package engine

import (
	"context"

	"github.com/stet-run/stet/store"
)

// maxGlance bounds the runs of one look.
const maxGlance = 1000

// glance looks at the runs of other processes whose ends somebody waits for, all at
// once, and tells who waits what has ended. The hub calls it after each change: so
// that costs one query, however many wait. An error is of no matter: they look
// themselves after the poll interval.
func (e *Engine) glance(ctx context.Context) {
	e.mu.Lock()
	ids := make([]string, 0, len(e.foreign))
	for id := range e.foreign {
		ids = append(ids, id)
	}
	e.mu.Unlock()
	for len(ids) > 0 {
		some := ids[:min(len(ids), maxGlance)]
		ids = ids[len(some):]
		whole := len(some) == 1
		page, err := e.cfg.Store.List(ctx, store.Filter{IDs: some, Limit: len(some), Values: whole})
		if err != nil {
			return
		}
		there := make(map[string]bool, len(some))
		for _, run := range page.Runs {
			there[run.ID] = true
			switch {
			case !over(&run):
			case whole:
				e.told(run.ID, run)
			default:
				e.told(run.ID, store.Run{})
			}
		}
		for _, id := range some {
			if !there[id] {
				e.told(id, store.Run{})
			}
		}
	}
}

// told gives those who wait for the end of a run the run, or the zero run: they are to
// look themselves.
func (e *Engine) told(runID string, run store.Run) {
	e.mu.Lock()
	waiters := e.ends[runID]
	delete(e.ends, runID)
	e.mu.Unlock()
	for _, w := range waiters {
		w <- run
	}
}

// over reports whether nothing more happens to a run by itself.
func over(run *store.Run) bool { return run.Status.Terminal() || run.Status == store.Stalled }

// watch lets glance look at a run until the returned function is called.
func (e *Engine) watch(runID string) func() {
	e.mu.Lock()
	e.foreign[runID]++
	e.mu.Unlock()
	unlisten := e.hub.listen()
	return func() {
		e.mu.Lock()
		if e.foreign[runID]--; e.foreign[runID] == 0 {
			delete(e.foreign, runID)
		}
		e.mu.Unlock()
		unlisten()
	}
}
