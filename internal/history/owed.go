package history

import (
	"cmp"
	"slices"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// UndoOf returns the location of the compensation of the step at a location.
func UndoOf(step location.Loc) location.Loc { return step.Name("undo", 1) }

// Owed lists the locations of the steps in a history that carry a compensation,
// have completed and were not undone, in text form and in the order in which they
// would be.
func Owed(entries []store.Entry) []string {
	undone := map[string]bool{}
	var owed []store.Entry
	for i := range entries {
		switch e := &entries[i]; {
		case e.State != store.Done:
		case e.Kind == store.KindUndo:
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
	var places []string
	for i := range owed {
		if loc := location.Loc(owed[i].Loc); !undone[string(UndoOf(loc))] {
			places = append(places, loc.String())
		}
	}
	return places
}
