package history

import (
	"cmp"
	"slices"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Fork returns what a run begins with that is forked from another before a location:
// the other run's history as a rewind would leave it, what returns to the inbox, and
// what is pending there. kinds has the kinds of the items that the history has
// consumed, by ID; an item that is not in it counts as a message.
//
// What the history has handed out is the other run's: keys and tokens of the new run
// differ, because its seed does. Both runs await the children that have not ended; they
// are not cancelled with the new one.
func Fork(
	s *store.Snapshot, at location.Loc, kinds map[string]store.ItemKind, now store.Time,
) (*store.Fork, *Revert, error) {
	r, err := Rewind(s.Entries, at, now)
	if err != nil {
		return nil, nil, err
	}
	f := &store.Fork{Random: s.Run.Random, Started: s.Run.Started, Entries: r.Apply(s.Entries)}
	if f.Random == (store.Seed{}) {
		f.Random = s.Run.Seed
	}
	items := map[string]store.Item{} // by ID
	made := map[string]int{}         // generations of the promises that stand
	for i := range f.Entries {
		e := &f.Entries[i]
		if e.Kind == store.KindPromise {
			made[e.Loc] = e.Generation
		}
		consumed, err := of(e).consumed(e)
		if err != nil {
			return nil, nil, err
		}
		for _, it := range consumed { // so that a repeat of it is recognised
			it.State = store.Consumed
			items[it.ID] = it
		}
		if err := of(e).share(e); err != nil {
			return nil, nil, err
		}
		e.Generation, e.Size = 0, 0
	}
	for _, it := range slices.Concat(r.Returned, s.Items) {
		switch {
		case it.Kind == store.ItemMessage && kinds[it.ID] != store.ItemUpdate:
		case it.Kind == store.ItemResolution:
			if generation, stands := made[it.Loc]; !stands || generation != it.Generation {
				continue
			}
			it.ID, it.Incarnation, it.Generation = stored.ResolutionID(it.Loc, 0, 0), 0, 0
		default:
			continue // verbs, answers to others, ends that are asked for again
		}
		it.State, it.Verdict = store.New, nil
		items[it.ID] = it
	}
	for _, it := range items {
		f.Items = append(f.Items, it)
	}
	slices.SortFunc(f.Items, func(a, b store.Item) int {
		return cmp.Or(cmp.Compare(a.No, b.No), cmp.Compare(a.ID, b.ID))
	})
	return f, r, nil
}

// Consumed returns the IDs of the messages that a history has consumed.
func Consumed(entries []store.Entry) ([]string, error) {
	var ids []string
	for i := range entries {
		items, err := of(&entries[i]).consumed(&entries[i])
		if err != nil {
			return nil, err
		}
		for _, it := range items {
			if it.Kind == store.ItemMessage {
				ids = append(ids, it.ID)
			}
		}
	}
	return ids, nil
}
