package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Fork returns what a run begins with that is forked from another before a
// location: its history as a rewind would leave it, what returns to the inbox, and
// what is pending there. kinds are of the items that the history has consumed, by
// ID; one that is not in it counts as a message.
//
// What the history has handed out is the other run's: keys and tokens of the new run
// differ, because its seed does. Children that have not ended are awaited by both
// runs, and are not cancelled with the new one.
func Fork(s *store.Snapshot, at location.Loc, kinds map[string]store.ItemKind, now store.Time) (*store.Fork, *Takeback, error) {
	tb, err := Rewind(s.Entries, at, now)
	if err != nil {
		return nil, nil, err
	}
	f := &store.Fork{Random: s.Run.Random, Started: s.Run.Started, Entries: tb.Apply(s.Entries)}
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
		consumed, err := consumedBy(e)
		if err != nil {
			return nil, nil, err
		}
		for _, it := range consumed {
			it.State, it.Value, it.Headers = store.Consumed, nil, nil
			items[it.ID] = it
		}
		if err := share(e); err != nil {
			return nil, nil, err
		}
		e.Generation, e.Size = 0, 0
	}
	pending := slices.Concat(tb.Returned, s.Items)
	for _, it := range pending {
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
	slices.SortFunc(f.Items, func(a, b store.Item) int { return cmp.Or(cmp.Compare(a.No, b.No), cmp.Compare(a.ID, b.ID)) })
	return f, tb, nil
}

// consumedBy returns the items that an entry has consumed, so that a repeat of one
// is recognised.
func consumedBy(e *store.Entry) ([]store.Item, error) {
	switch {
	case e.State == store.Done && e.Kind == store.KindReceive:
		messages, err := stored.DecodeReceipt(e.Value)
		if err != nil {
			return nil, fmt.Errorf("entry %s: %w", location.Loc(e.Loc), err)
		}
		items := make([]store.Item, len(messages))
		for i, m := range messages {
			items[i] = store.Item{Kind: store.ItemMessage, No: m.No, Name: m.Name, ID: m.ID, Sent: m.Sent}
		}
		return items, nil
	case e.Kind == store.KindPromise && (e.State == store.Done || e.State == store.FailedEntry):
		return []store.Item{{Kind: store.ItemResolution, ID: stored.ResolutionID(e.Loc, 0, 0), Loc: e.Loc, Sent: e.At}}, nil
	}
	return nil, nil
}

// share makes an open entry of another run one that a forked run has too.
func share(e *store.Entry) error {
	if e.Kind == store.KindEvent {
		return shareEvent(e)
	}
	if without, _, ok := Unpermitted(e); ok {
		*e = without // the other run's
	}
	if e.Kind != store.KindChild && e.Kind != store.KindRun || e.State != store.Open && e.State != store.Withdrawn {
		return nil
	}
	l, err := stored.DecodeLink(e.State, e.Value)
	if err != nil {
		return fmt.Errorf("entry %s: %w", location.Loc(e.Loc), err)
	}
	if l.Detached {
		return nil
	}
	l.Leave = l.Former == "" // else it will be the fork's own
	e.State, e.Value = store.Withdrawn, l.Encode()
	return nil
}

// shareEvent makes the entry of a wait one that a forked run has too. It registers
// its own, and what was taken was taken by the other.
func shareEvent(e *store.Entry) error {
	switch e.State {
	case store.Open:
		e.State, e.Value = store.Withdrawn, nil
	case store.Done:
		var d event.Delivery
		if err := event.Decode(e.Value, &d); err != nil {
			return fmt.Errorf("entry %s: %w", location.Loc(e.Loc), err)
		}
		d.Key = ""
		e.Value = event.Encode(&d)
	}
	return nil
}

// Consumed returns the IDs of the items that a history has consumed.
func Consumed(entries []store.Entry) ([]string, error) {
	var ids []string
	for i := range entries {
		items, err := consumedBy(&entries[i])
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
