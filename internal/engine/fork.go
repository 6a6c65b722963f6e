package engine

import (
	"context"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/verbs/fork"
	"github.com/stet-run/stet/store"
)

// Fork returns the start of a run that is forked from another before a location, as
// fork.Source.Start does. Queues.EnqueueFork puts it on the other run's queue.
func (e *Engine) Fork(
	ctx context.Context, runID string, at location.Loc, act store.Audit,
) (start *store.Start, ok bool, err error) {
	source := fork.Source{Store: e.cfg.Store, Now: e.time.Now, Values: e.view.Values}
	return source.Start(ctx, runID, at, act)
}
