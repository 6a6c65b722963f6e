package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// step is a recorded side effect.
type step struct{ ordinary }

// A step that is open again has all its attempts again.
func (step) reopen(e *store.Entry, now store.Time) (store.Entry, error) {
	open := reopened(e)
	open.Started, open.Value = 0, stored.Progress{Since: now}.Encode()
	return open, nil
}

func (step) giveBack(r *Revert, e *store.Entry, _ bool) error {
	if _, back, ok := unpermitted(e); ok {
		r.Sends = append(r.Sends, back)
	}
	return nil
}

// The permit of an open step is the other run's.
func (step) share(e *store.Entry) error {
	if without, _, ok := unpermitted(e); ok {
		*e = without
	}
	return nil
}

func (step) edit(
	h *history, e *store.Entry, q *stored.Request, now store.Time,
) (store.Entry, []store.Command, error) {
	if h.isUndone(e.Loc) {
		return store.Entry{}, nil, refuseTo("step %s was undone", place(e))
	}
	var sends []store.Command
	if _, back, ok := unpermitted(e); ok {
		sends = append(sends, back) // nobody waits for it any more
	}
	edited := *e
	edited.Wake, edited.Size = 0, 0
	if e.State == store.Open || e.State == store.Withdrawn {
		edited.Ended = now
	}
	edited.State, edited.Value = store.Done, q.Value
	if !q.Failed {
		return edited, sends, nil
	}
	cause, err := stored.DecodeFailure(q.Value)
	if err != nil {
		return edited, nil, err
	}
	edited.State = store.FailedEntry
	edited.Value = stored.EncodeFailure(&stored.Failure{
		Code: stored.CodeStep, Location: place(e).String(), Attempts: e.Attempt,
		Cause: cause, Causes: []*stored.Failure{cause},
		Message: fmt.Sprintf("step %s failed: %s", place(e), cause.Message),
	})
	return edited, sends, nil
}

func (step) forsake(e *store.Entry, _ int64) (store.Entry, []store.Command, bool) {
	without, back, ok := unpermitted(e)
	return without, []store.Command{back}, ok
}

// unpermitted returns the entry of an open step without the permit that it has asked
// for, and the command that gives the permit back. ok is false if the step has asked
// for none, or its value cannot be read.
func unpermitted(e *store.Entry) (without store.Entry, back store.Command, ok bool) {
	if e.State != store.Open || e.Value == nil {
		return store.Entry{}, store.Command{}, false
	}
	p, err := stored.DecodeProgress(e.Value)
	if err != nil || p.Permit == nil {
		return store.Entry{}, store.Command{}, false
	}
	return p.WithoutPermit(e), p.Permit.GiveBack(), true
}

// undo is the compensation of a step, at the end of the run or by a saga.
type undo struct{ ordinary }

func (undo) edit(_ *history, e *store.Entry, q *stored.Request, now store.Time) (store.Entry, []store.Command, error) {
	if e.State != store.Open || q.Failed {
		return store.Entry{}, nil, refuseTo(
			"%s is a compensation: one that is open can be edited to be done, and nothing else", place(e))
	}
	var sends []store.Command
	if _, back, ok := unpermitted(e); ok {
		sends = append(sends, back)
	}
	edited := *e
	edited.State, edited.Value, edited.Wake, edited.Size, edited.Ended = store.Done, nil, 0, 0, now
	return edited, sends, nil
}

// A compensation asks for permits as a step does.
func (undo) giveBack(r *Revert, e *store.Entry, worthless bool) error {
	return step{}.giveBack(r, e, worthless)
}

func (undo) share(e *store.Entry) error { return step{}.share(e) }

func (undo) forsake(e *store.Entry, last int64) (store.Entry, []store.Command, bool) {
	return step{}.forsake(e, last)
}

// UndoOf returns the location of the compensation of the step at a location.
func UndoOf(step location.Loc) location.Loc { return step.Name("undo", 1) }

// Owed lists the locations of the steps in a history that carry a compensation, have
// completed and were not undone. They are in text form and in the order in which they
// would be undone: the newest completion first. Before them are children that are not known
// to have ended, and steps whose bodies may have had an effect that is not recorded. Of open
// steps the values are read (Unread).
func Owed(entries []store.Entry) []string {
	undone := map[string]bool{}
	var owed []store.Entry
	var open []string
	for i := range entries {
		switch e := &entries[i]; {
		case e.Kind == store.KindChild && e.State == store.Open && e.Owes, unsure(e):
			open = append(open, place(e).String())
		case e.State != store.Done:
		case e.Kind.Undoes():
			undone[e.Loc] = true
		case e.Owes:
			owed = append(owed, *e)
		}
	}
	slices.SortStableFunc(owed, func(a, b store.Entry) int {
		if a.Seq == 0 || b.Seq == 0 { // done last, and not handed over
			return cmp.Compare(min(a.Seq, 1), min(b.Seq, 1))
		}
		return cmp.Compare(b.Seq, a.Seq)
	})
	places := open
	for i := range owed {
		if at := place(&owed[i]); !undone[string(UndoOf(at))] {
			places = append(places, at.String())
		}
	}
	return places
}

// Unread returns the locations of the entries whose values Owed reads and a snapshot has left
// out.
func Unread(entries []store.Entry) []string {
	var locs []string
	for i := range entries {
		if e := &entries[i]; e.Kind == store.KindStep && e.State == store.Open && e.Owes && e.Value == nil && e.Size > 0 {
			locs = append(locs, e.Loc)
		}
	}
	return locs
}

// unsure reports whether an entry is of a step with a compensation that has not ended, and
// whose body may have had an effect.
func unsure(e *store.Entry) bool {
	if e.Kind != store.KindStep || e.State != store.Open || !e.Owes {
		return false
	}
	p, err := stored.DecodeProgress(e.Value)
	return err == nil && p.Unsure
}

// endsRun reports whether an entry is of a compensation at the end of the run.
func endsRun(e store.Entry) bool { return e.Kind == store.KindUndo }

// isUndone reports whether a compensation of the step at a location is recorded.
func (h *history) isUndone(loc string) bool {
	for i := range h.entries {
		if e := &h.entries[i]; e.Kind.Undoes() && string(place(e).Parent()) == loc {
			return true
		}
	}
	return false
}

// firstUndone returns the step with the lowest number whose compensation at the end of the
// run is recorded, or nil.
func (h *history) firstUndone() *store.Entry {
	var first *store.Entry
	for i := range h.entries {
		if !endsRun(h.entries[i]) {
			continue
		}
		step := h.at(string(place(&h.entries[i]).Parent()))
		if step != nil && (first == nil || step.Seq < first.Seq) {
			first = step
		}
	}
	return first
}

// undoneAcross returns a step that completed before the cut, whose compensation by a saga
// would be reverted although it has been executed, or is; or nil.
func (h *history) undoneAcross(cut int64, at location.Loc) *store.Entry {
	for i := range h.entries {
		e := &h.entries[i]
		if e.Kind != store.KindSagaUndo || e.Seq > 0 && e.Seq < cut || e.Seq == 0 && e.Born < cut && e.Loc != string(at) {
			continue
		}
		if step := h.at(string(place(e).Parent())); step != nil && step.Seq < cut {
			return step
		}
	}
	return nil
}
