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
	source := fork.Source{Store: e.cfg.Store, Now: e.time.Now, Values: e.values}
	return source.Start(ctx, runID, at, act)
}

// values returns entries of a run with their values, however large they are. An error says
// that one of them could not be read or opened.
func (e *Engine) values(ctx context.Context, run store.RunNo, incarnation int, locs []string) ([]store.Entry, error) {
	q := store.HistoryQuery{Run: run, Incarnation: incarnation, Locs: locs, Values: true}
	entries, err := e.base.History(ctx, q)
	if err != nil {
		return nil, err
	}
	return entries, e.cfg.Payloads.OpenEntries(ctx, run, incarnation, entries)
}
