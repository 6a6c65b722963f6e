package judge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stet-run/stet/store"
)

// undos watches the undoing of runs at their end: the newest effect comes first, and a run that
// has undone something does not succeed.
type undos struct {
	*oracle
	runs map[store.RunNo]*undoing
}

type undoing struct {
	incarnation int
	effects     map[string]int64 // completion numbers of what has a compensation, by location
	last        int64            // of what was undone last; 0: nothing
	midst       bool             // another compensation is owed
	rests       bool             // the run is paused or stalled
}

// turn takes a turn that was written. changed: an operator has changed the history.
func (u *undos) turn(t *store.Turn, id string, changed bool) {
	r := u.runs[t.Run]
	if r == nil || r.incarnation != t.Incarnation || changed {
		r = &undoing{incarnation: t.Incarnation, effects: map[string]int64{}, rests: r != nil && r.rests}
		u.runs[t.Run] = r
	}
	var undone []store.Entry
	for _, e := range t.Entries {
		switch {
		case e.Kind == store.KindUndo && e.State == store.Done:
			undone = append(undone, e)
		case e.Owes && e.State == store.Done && e.Seq > 0:
			r.effects[e.Loc] = e.Seq
		}
	}
	slices.SortFunc(undone, func(a, b store.Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, e := range undone {
		of := ""
		for loc := range r.effects {
			if len(loc) > len(of) && strings.HasPrefix(e.Loc, loc) {
				of = loc
			}
		}
		if of == "" {
			continue // it was done before the operator's change
		}
		if seq := r.effects[of]; r.last > 0 && seq > r.last && !u.changed[id] {
			u.violated("22: %s undoes what was done as number %d after what was done as number %d", id, seq, r.last)
		}
		r.last = r.effects[of]
		u.count("effect undone at the end of a run")
	}
	if t.Update == nil {
		return
	}
	if t.Update.Status.Terminal() && r.rests {
		u.atRest[id] = true
	}
	r.rests = t.Update.Marks&store.Paused != 0 || t.Update.Status == store.Stalled
	r.midst = t.Update.Marks&store.Undoing != 0 && !t.Update.Status.Terminal()
	if t.Update.Status == store.Succeeded && r.last > 0 && !u.changed[id] {
		u.violated("22: %s has succeeded, and has undone what it did", id)
	}
}

// moved takes a takeover of runs.
func (u *undos) moved(run store.RunNo) {
	if r := u.runs[run]; r != nil && r.midst {
		u.count("takeover in the middle of an undo")
	}
}
