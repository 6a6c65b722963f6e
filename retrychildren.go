package stet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// A retry that goes back to a failed child retries that child with its own request, which the
// turn of the parent sends. The child does the same with its children. Here is only looked at
// beforehand whether that can lead anywhere.

// retries reports whether the verb, if it is granted, retries the run.
func retries(kind store.ItemKind, run *store.Run) bool {
	return kind == store.ItemRetry && run.Status == store.Failed ||
		(kind == store.ItemRetry || kind == store.ItemResume) && stored.CauseOf(run) == stored.CauseFailure
}

// checkRetry refuses the retry of a run that goes back to a child which cannot be retried.
func (e *Engine) checkRetry(ctx context.Context, run *store.Run) error {
	entries, err := e.store.History(ctx, store.HistoryQuery{Run: run.No, Incarnation: run.Incarnation, Values: true})
	if err != nil {
		return err
	}
	_, err = e.retried(ctx, run, entries)
	var refused history.Refusal
	if errors.As(err, &refused) {
		return fmt.Errorf("%w: %s", ErrRefused, refused)
	}
	return err
}

// retried returns the IDs of the children that are retried with a run, and of theirs. The error
// is a history.Refusal if the run goes back to a child that can be neither retried nor awaited
// again.
func (e *Engine) retried(ctx context.Context, run *store.Run, entries []store.Entry) ([]string, error) {
	back, at, err := history.Retry(run, entries, 0)
	if err != nil || len(back.Failed) == 0 {
		return nil, err
	}
	cause := ""
	for i := range entries {
		if c := &entries[i]; c.Loc == string(at) && c.Kind == store.KindChild {
			if l, err := stored.DecodeLink(c.State, c.Value); err == nil {
				cause = l.RunID
			}
		}
	}
	var all []string
	for _, id := range back.Failed {
		ids, err := e.retriedChild(ctx, id)
		var refused history.Refusal
		switch {
		case err == nil:
			all = append(all, ids...)
		case !errors.As(err, &refused):
			return nil, err
		case id == cause:
			return nil, history.Refusal(fmt.Sprintf("it goes back to %s, and child %s cannot be retried: %s; "+
				"rewind that, and retry this run then, or rewind this run to before %s, which begins another child",
				at, id, refused, at))
		}
	}
	return all, nil
}

// retriedChild returns the IDs of the runs that are retried with a child, which is the first.
// There is none if the child has succeeded since, or has not ended. A history.Refusal says why
// it cannot be retried.
func (e *Engine) retriedChild(ctx context.Context, id string) ([]string, error) {
	child, ok, err := e.inner.Get(ctx, id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("run %q: %w", id, err)
	case !ok:
		return nil, history.Refusal("it was deleted")
	case child.Status == store.Succeeded, !child.Status.Terminal():
		return nil, nil
	}
	if err := refusal(store.ItemRetry, &child); err != nil {
		return nil, history.Refusal(err.Error())
	}
	q := store.HistoryQuery{Run: child.No, Incarnation: child.Incarnation, Values: true}
	entries, err := e.store.History(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("run %q: %w", id, err)
	}
	ids, err := e.retried(ctx, &child, entries)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]string{id}, ids), nil
}
