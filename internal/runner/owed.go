package runner

import (
	"cmp"
	"slices"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// owedNow lists what is owed, as far as is known.
func (r *Run) owedNow() []string {
	entries := slices.Clone(r.undo.recorded)
	places := make(map[string]int, len(entries))
	for i := range entries {
		places[entries[i].Loc] = i
	}
	for _, d := range r.undo.debts {
		if i, recorded := places[string(d.loc)]; recorded && !d.paid {
			entries[i].Seq = d.seq // it may have had none
			continue
		}
		e := store.Entry{Loc: string(d.loc), State: store.Done, Seq: d.seq, Owes: true}
		if d.paid {
			e = store.Entry{Loc: string(d.loc.Name(undoName, 1)), Kind: store.KindUndo, State: store.Done}
		}
		entries = append(entries, e)
	}
	return Owed(entries)
}

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
		if loc := location.Loc(owed[i].Loc); !undone[string(loc.Name(undoName, 1))] {
			places = append(places, loc.String())
		}
	}
	return places
}
