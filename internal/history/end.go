package history

import (
	"encoding/hex"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Withdrawn returns an open entry, without its value, as it is when nobody waits for
// it any more.
func Withdrawn(e *store.Entry) store.Entry {
	return store.Entry{Loc: e.Loc, Kind: e.Kind, State: store.Withdrawn, Born: e.Born, Generation: e.Generation}
}

// Forsake returns what the turn writes and sends that ends a run whose code does
// not run: nobody waits at topics or for permits any more, nor for the children that
// Orphans cancels.
func Forsake(entries []store.Entry) (withdrawn []store.Entry, sends []store.Command) {
	var last int64
	for i := range entries {
		last = max(last, entries[i].Seq)
	}
	for i := range entries {
		e := &entries[i]
		if without, back, ok := Unpermitted(e); ok {
			withdrawn, sends = append(withdrawn, without), append(sends, back)
		}
		if e.State != store.Open {
			continue
		}
		switch e.Kind {
		case store.KindChild:
			if l, err := stored.DecodeLink(e.State, e.Value); err == nil && !l.Leave {
				l.Dropped = stored.DroppedAtEnd(last)
				withdrawn = append(withdrawn, Withdrawn(e))
				withdrawn[len(withdrawn)-1].Value = l.Encode()
			}
		case store.KindEvent:
			var w event.Wait
			if event.Decode(e.Value, &w) != nil {
				continue // a damaged one is registered nowhere that anybody could tell
			}
			withdrawn = append(withdrawn, Withdrawn(e))
			sends = append(sends, event.Withdraw(w.Topic, w.Key))
		}
	}
	return withdrawn, sends
}

// Orphans returns the commands that cancel those of the children in a history that
// end with their run, of all that want reports; nil: all.
func Orphans(run *store.Run, entries []store.Entry, want func(*store.Entry) bool) []store.Command {
	var sends []store.Command
	for i := range entries {
		e := &entries[i]
		if e.Kind != store.KindChild || e.State != store.Open || want != nil && !want(e) {
			continue
		}
		if l, err := stored.DecodeLink(e.State, e.Value); err == nil && !l.Leave {
			sends = append(sends, Orphan(run, location.Loc(e.Loc), l.RunID))
		}
	}
	return sends
}

// Orphan returns the command that cancels a child because its parent ends.
func Orphan(run *store.Run, loc location.Loc, childID string) store.Command {
	return CancelChild(run, loc, childID, "its parent has ended")
}

// CancelChild returns the command that cancels the child that was started at a
// location, once per generation.
func CancelChild(run *store.Run, loc location.Loc, childID, why string) store.Command {
	h := stored.Derive(run.Seed, "cancel", run.Generation, loc, 0)
	return cancelChild(childID, hex.EncodeToString(h[:16]), why)
}

// cancelChild returns the command that cancels a child by an item with the ID.
func cancelChild(childID, id, why string) store.Command {
	return store.Command{RunID: childID, Item: &store.Item{Kind: store.ItemCancel, ID: id, Origin: id, Value: []byte(why)}}
}
