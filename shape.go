package stet

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/shape"
	"github.com/stet-run/stet/store"
)

// Shape is how the recorded operations of a run stand to each other, and which of them its
// time went to.
type Shape struct {
	// Path is the critical path, the earliest operation first: the one chain of operations
	// of which each was requested because the one before it had ended. It ends with the
	// run's last completion; of a run that has not ended, with what it waits for now. If it
	// waits for several operations, that is the one that was requested last.
	Path []PathPart

	// From and To are the time that the path explains: the run's, up to now if it has not
	// ended. All of Before and Took, and After, add up to it.
	From, To time.Time
	After    time.Duration // from the end of the last part until To
	// Cut says that the run began before From, with operations that are not recorded any
	// more: iterations of a loop that were pruned, or what came before a continue-as-new.
	Cut bool

	// Boxes are the operations and the scopes that they stand in. The first is the run, and
	// each comes before those in it.
	Boxes []ShapeBox
}

// PathPart is an operation on the critical path.
type PathPart struct {
	Location string
	Kind     store.Kind
	State    store.EntryState
	Began    time.Time
	// Before is from the end of the operation that caused it, or the begin of the path,
	// until it began: time of the code and its commits, and of a step that waited for a
	// permit. Took is from there until it ended; of an open operation until now.
	Before, Took time.Duration
}

// ShapeBox is an operation, a scope with operations in it, or both.
type ShapeBox struct {
	Location string           // "" of the run
	Kind     store.Kind       // of the operation at the location; 0: there is none
	State    store.EntryState // of that operation; 0: there is none
	Critical bool             // it is on the critical path, or has operations that are
	Parent   int              // index of the box around it; -1 of the run

	// Stages are the boxes that are directly in it, by their index in Shape.Boxes: stages
	// one after the other, of each the lanes beside each other, of each the boxes in
	// sequence. Two boxes are in sequence if one was requested after the last completion in
	// the other; otherwise they are parallel, and in different lanes of one stage.
	Stages [][][]int

	Open, Done, Failed, Withdrawn int       // operations at and in it
	From, To                      time.Time // of these the first begin and the last end; To is zero while one is open
}

// Shape returns the shape of a run. It reads the run's whole history, without values.
// ErrNotFound: there is no run with the ID.
func (r Runs) Shape(ctx context.Context, runID string) (*Shape, error) {
	run, ok, err := r.engine.inner.Get(ctx, runID)
	switch {
	case err != nil:
		return nil, fmt.Errorf("shape of run %q: %w", runID, err)
	case !ok:
		return nil, fmt.Errorf("run %q: %w", runID, ErrNotFound)
	}
	entries, err := r.engine.store.History(ctx, store.HistoryQuery{Run: run.No, Incarnation: run.Incarnation})
	if err != nil {
		return nil, fmt.Errorf("shape of run %q: %w", runID, err)
	}
	now := run.Ended
	if now == 0 {
		d, err := r.engine.store.Describe(ctx)
		if err != nil {
			return nil, fmt.Errorf("shape of run %q: %w", runID, err)
		}
		now = d.Now
	}
	path, boxes := shape.PathOf(&run, entries, now), shape.BoxesOf(entries)
	s := &Shape{
		Path: make([]PathPart, len(path.Parts)), From: path.From.Time(), To: path.To.Time(),
		After: path.After, Cut: path.Cut, Boxes: make([]ShapeBox, len(boxes)),
	}
	critical := make(map[int]bool, len(path.Parts))
	for i, p := range path.Parts {
		e := &entries[p.Entry]
		critical[p.Entry] = true
		s.Path[i] = PathPart{
			Location: location.Loc(e.Loc).String(), Kind: e.Kind, State: e.State,
			Began: p.Began.Time(), Before: p.Before, Took: p.Took,
		}
	}
	for i := len(boxes) - 1; i >= 0; i-- {
		b := &boxes[i]
		out := &s.Boxes[i]
		out.Location, out.Parent, out.Stages = b.Loc.String(), b.Parent, b.Stages
		out.Open, out.Done, out.Failed, out.Withdrawn = b.Open, b.Done, b.Failed, b.Withdrawn
		out.From, out.To = b.From.Time(), b.To.Time()
		if b.Entry >= 0 {
			out.Kind, out.State = entries[b.Entry].Kind, entries[b.Entry].State
			out.Critical = out.Critical || critical[b.Entry]
		}
		if out.Critical && b.Parent >= 0 {
			s.Boxes[b.Parent].Critical = true
		}
	}
	return s, nil
}
