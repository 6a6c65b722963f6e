package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/verbs/fork"
	"github.com/stet-run/stet/store"
)

// Fork returns the start of a run that is forked from another before a location, as
// fork.Source.Start does. Queues.EnqueueFork puts it on the other run's queue.
func (e *Engine) Fork(
	ctx context.Context, runID string, at location.Loc, act store.Audit,
) (start *store.Start, ok bool, err error) {
	source := fork.Source{Store: e.cfg.Store, Now: e.time.Now, Values: e.view.Values}
	start, ok, err = source.Start(ctx, runID, at, act)
	if err != nil || !ok {
		return start, ok, err
	}
	// A value that stayed as it is stored would be bound to the fork as if it were plain.
	for i := range start.Fork.Items {
		if it := &start.Fork.Items[i]; errors.Is(payload.Readable(it.Value), payload.ErrSealed) {
			return nil, true, fmt.Errorf("%s %s: %w", it.Kind, it.Name, payload.Readable(it.Value))
		}
	}
	return start, true, payload.ReadableEntries(start.Fork.Entries)
}
