package runner

import (
	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// # Sagas
//
// A saga is a scope whose completed steps are undone, newest first, when its code asks for
// it; the code around it then goes on. What the code asks follows from what was handed over,
// so nothing but the compensations is recorded, as operations in the order of all others:
// a replay comes to the same place and hands them over again. They have a kind of their own,
// because compensations at the end of the run take part in a replay only behind the code.
//
// When the undoing begins the code of all branches that were begun in the scope has ended,
// and so have its steps with compensations. Nothing reaches the undoing: a cancel is
// handed over beside it, and the code sees that behind it.
//
// What a saga has not undone, because it has succeeded or was told so, is pending as before:
// a saga around it undoes it, or the run.

// Saga asks for a scope that can be undone.
type Saga struct {
	Call Call
	// Func is the code of the saga. It reports whether what has completed in it is undone.
	Func func() (undo bool)
}

// Saga executes a saga. It returns ErrCancelled if it was not begun.
func (b *Branch) Saga(spec Saga) error {
	if err := b.Enter(spec.Call); err != nil {
		return err
	}
	loc := b.Locate(spec.Call)
	b.RefuseInPanic(loc)
	undo := false
	b.Inside(loc, b.Scope().Value(), func() { undo = spec.Func() })
	if undo {
		b.undoScope(loc)
	}
	return nil
}

// undoScope undoes what has completed in a scope and was not undone.
func (b *Branch) undoScope(scope location.Loc) {
	r := b.run
	r.j.PassGone() // what the code has no more may be in it
	for _, d := range r.undo.effects.Within(scope) {
		rec := r.j.RecordAt(history.UndoOf(d.Loc))
		switch {
		case rec != nil && rec.Kind == store.KindUndo:
			b.Halt() // the code was dropped before, and the rest was undone at the end of the run
		case d.Undone:
			continue // the saga that has undone it is removed
		case d.Undo == nil && (rec == nil || rec.State != store.Done):
			r.stall(d.Lacking())
			b.Halt()
		}
		if b.compensate(d, store.KindSagaUndo, d.In) != nil {
			b.Halt() // dropped
		}
	}
}
