package stet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Preview is what a retry, rewind or edit would do to a run. Lists of locations are in the
// order in which the operations have completed.
type Preview struct {
	// From is the location from which on the run would be executed again; "": none, its end
	// alone is taken back, or the outcome of a step is replaced.
	From string
	// TakenBack are the completed operations that would be executed again.
	TakenBack []string
	// Owed are those of them that carry a compensation and have not been undone: what they
	// have done stays done.
	Owed []string
	// Messages is how many messages and resolutions would be back in the inbox.
	Messages int
	// Cancelled are the IDs of children that would be cancelled. A fork cancels none.
	Cancelled []string
	// Retried are the IDs of the children, and of theirs, that have failed and would be
	// retried with the run.
	Retried []string
}

// Preview returns what a verb would do to a run as it stands, and changes nothing. The verb
// is store.ItemRetry; store.ItemRewind before a location, which a fork does to its copy; or
// store.ItemEdit of the step at a location. The error is the one that the verb would have
// got: ErrNotFound, ErrTerminal, ErrRefused, ErrInvalid, or one of the store.
func (r Runs) Preview(ctx context.Context, runID string, verb store.ItemKind, at string) (*Preview, error) {
	var loc location.Loc
	var err error
	switch verb {
	case store.ItemRetry:
	case store.ItemRewind, store.ItemEdit:
		loc, err = parsePlace(at)
	default:
		err = fmt.Errorf("expected a retry, rewind or edit, found %s: %w", verb, ErrInvalid)
	}
	if err == nil {
		err = checkNotEntity(runID)
	}
	if err != nil {
		return nil, fmt.Errorf("preview of a %s of run %q: %w", verb, runID, err)
	}
	run, ok, err := r.engine.inner.Get(ctx, runID)
	switch {
	case err != nil:
	case !ok:
		err = ErrNotFound
	default:
		err = refusal(verb, &run)
	}
	var entries []store.Entry
	if err == nil {
		q := store.HistoryQuery{Run: run.No, Incarnation: run.Incarnation, Values: true}
		entries, err = r.engine.store.History(ctx, q)
	}
	var p *Preview
	if err == nil {
		p, err = preview(&run, entries, verb, loc)
	}
	if err == nil && verb == store.ItemRetry {
		p.Retried, err = r.engine.retried(ctx, &run, entries)
	}
	refused := history.Refusal("")
	switch {
	case errors.As(err, &refused):
		return nil, fmt.Errorf("preview of a %s of run %q: %w: %s", verb, runID, ErrRefused, refused)
	case err != nil:
		return nil, fmt.Errorf("preview of a %s of run %q: %w", verb, runID, err)
	}
	return p, nil
}

func preview(run *store.Run, entries []store.Entry, verb store.ItemKind, at location.Loc) (*Preview, error) {
	var back *history.Revert
	var err error
	switch verb {
	case store.ItemEdit:
		_, _, err = history.Edit(entries, &stored.Request{Location: string(at)}, 0)
		return &Preview{}, err
	case store.ItemRetry:
		back, at, err = history.Retry(run, entries, 0)
	default:
		back, err = history.Rewind(entries, at, 0)
	}
	if err != nil {
		return nil, err
	}
	p := &Preview{Messages: len(back.Returned), Cancelled: back.Children}
	if verb == store.ItemRewind || at != "" {
		p.From = at.Path()
	}
	undone := map[string]bool{}
	for i := range entries {
		undone[entries[i].Loc] = entries[i].Kind.Undoes() && entries[i].State == store.Done
	}
	var taken []*store.Entry
	for i := range entries {
		e := &entries[i]
		gone := slices.ContainsFunc(back.Prune, func(s store.Span) bool { return s.Contains(e.Loc) })
		if e.Seq > 0 && e.Kind != store.KindCancel && (gone || e.Seq >= back.Cut) {
			taken = append(taken, e)
		}
	}
	slices.SortFunc(taken, func(a, b *store.Entry) int { return int(a.Seq - b.Seq) })
	for _, e := range taken {
		place := location.Loc(e.Loc)
		p.TakenBack = append(p.TakenBack, place.String())
		if e.Owes && e.State == store.Done && !undone[string(history.UndoOf(place))] {
			p.Owed = append(p.Owed, place.String())
		}
	}
	return p, nil
}
