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

	// From and To are the time that the path explains: from when the run was created until it ended,
	// or now. All of Before and Took, and After, add up to it, and so do all of Spent.
	From, To time.Time     `json:",omitzero"`
	After    time.Duration // from the end of the last part until To
	// Cut says that the run began before From, with operations that are not recorded any
	// more: iterations of a loop that were pruned, or what came before a continue-as-new.
	Cut bool
	// Spent says what the time from From to To went to.
	Spent []TimeSpent

	// Boxes are the operations and the scopes that they stand in. The first is the run, and
	// each comes before those in it.
	Boxes []ShapeBox

	// Used is how much of its budget the history has used.
	Used HistoryUse
}

// HistoryUse is the size of a run's history, and what it may have. A run at one of the limits stalls with the
// cause CauseBudget.
type HistoryUse struct {
	Entries int // operations that are recorded
	Bytes   int // of their values, as they are stored
	// MaxEntries and MaxBytes are those of the engine that was asked (Config.MaxEntries, Config.MaxBytes). The
	// engine that executes the run may have others.
	MaxEntries, MaxBytes int
}

// TimeSpent is a part of a run's time.
type TimeSpent struct {
	// On says on what, in one word: begin (before it was claimed for the first time), code (with
	// commits), running (its code or a step, of which no record has come yet), step, worker (a step that
	// a worker executed), wait (for messages, events, promises, times, other runs), retry (pauses between
	// attempts), permit (waiting for one of Queue), place (waiting for one on its node: MaxSteps, PerNode),
	// offered (to workers), claim (what it waited for had come, and no node had taken it up), node (no
	// node that lives can execute it), paused, stalled, or ended (before it was retried or rewound).
	On    string
	Queue string // of worker, permit and offered
	Text  string // the same in a few words
	Took  time.Duration
	Grows bool // the run has not ended, and spends its time on this now
}

// PathPart is an operation on the critical path.
type PathPart struct {
	Location string
	Kind     store.Kind       `json:",omitzero"`
	State    store.EntryState `json:",omitzero"`
	Began    time.Time        `json:",omitzero"`
	// Before is from the end of the operation that caused it, or the begin of the path,
	// until it began: time of the code and its commits, and of a step that waited for a
	// permit or a place. Took is from there until it ended; of an open operation until now.
	Before, Took time.Duration
}

// ShapeBox is an operation, a scope with operations in it, or both.
type ShapeBox struct {
	Location string           // "" of the run
	Kind     store.Kind       `json:",omitzero"` // of the operation at the location; 0: there is none
	State    store.EntryState `json:",omitzero"` // of that operation; 0: there is none
	Critical bool             // it is on the critical path, or has operations that are
	Parent   int              // index of the box around it; -1 of the run

	// Stages are the boxes that are directly in it, by their index in Shape.Boxes: stages
	// one after the other, of each the lanes beside each other, of each the boxes in
	// sequence. Two boxes are in sequence if one was requested after the last completion in
	// the other; otherwise they are parallel, and in different lanes of one stage.
	Stages [][][]int

	Open, Done, Failed, Withdrawn int // operations at and in it
	// From and To are of these the first begin and the last end; To is zero while one is open.
	From, To time.Time `json:",omitzero"`
}

// Shape returns the shape of a run. It reads the run's whole history, without values other than
// those of steps on the critical path that are short: up to 64 KiB each, and 1 MiB in all. Of
// other steps Spent does not say what each attempt waited for.
// ErrNotFound: there is no run with the ID.
func (r Runs) Shape(ctx context.Context, runID string) (*Shape, error) {
	run, err := r.engine.findWaits(ctx, runID)
	if err != nil {
		return nil, fmt.Errorf("shape: %w", err)
	}
	entries, err := r.engine.store.History(ctx, store.HistoryQuery{Run: run.No, Incarnation: run.Incarnation})
	if err != nil {
		return nil, fmt.Errorf("shape of run %q: %w", runID, err)
	}
	now, nodes := run.Ended, (*NodesInfo)(nil)
	if now == 0 {
		if nodes, err = r.engine.Nodes().Info(ctx); err != nil {
			return nil, fmt.Errorf("shape of run %q: %w", runID, err)
		}
		now = nodes.Now
	}
	path, boxes := shape.PathOf(run, entries, now), shape.BoxesOf(entries)
	facts, err := r.shapeFacts(ctx, run, nodes, entries, path.Parts)
	if err != nil {
		return nil, fmt.Errorf("shape of run %q: %w", runID, err)
	}
	s := &Shape{
		Path: make([]PathPart, len(path.Parts)), From: path.From.Time(), To: path.To.Time(),
		After: path.After, Cut: path.Cut, Boxes: make([]ShapeBox, len(boxes)),
	}
	s.Used = HistoryUse{len(entries), 0, r.engine.limits.Entries, r.engine.limits.Bytes}
	for i := range entries {
		s.Used.Bytes += entries[i].Size
	}
	for _, share := range path.Shares(run, entries, facts) {
		s.Spent = append(s.Spent, TimeSpent{string(share.Term), share.Queue, share.String(), share.Took, share.Grows})
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
