package history_test

import (
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// unfinished is the history of a run that waits for everything that one can wait for.
func unfinished() []store.Entry {
	place := permit.Place{Queue: "q", Ticket: "t"}
	return sorted(
		recorded("a", store.KindStep, 1, 0),
		recorded("kid", store.KindChild, 0, 1, with(stored.Link{RunID: "kid"}.Encode())),
		recorded("left", store.KindChild, 0, 1, with(stored.Link{RunID: "left", Leave: true}.Encode())),
		recorded("ended", store.KindChild, 2, 1, with(stored.Link{RunID: "ended", Status: store.Succeeded}.Encode())),
		recorded("seen", store.KindRun, 0, 1, with(stored.Link{RunID: "other", Key: "k"}.Encode())),
		recorded("event", store.KindEvent, 0, 1, with(event.Encode(&event.Wait{Topic: "news", Key: "w"}))),
		recorded("damaged", store.KindEvent, 0, 1, with([]byte{0xff})),
		recorded("queued", store.KindStep, 0, 1, with(stored.Progress{Detail: []byte("d"), Permit: &place}.Encode())),
		recorded("tried", store.KindStep, 0, 1, with(stored.Progress{Detail: []byte("d")}.Encode())),
		recorded("sleep", store.KindSleep, 0, 1, with(nil)),
	)
}

// A run that ends without its code leaves no wait at a topic, no permit and no child
// that it owns.
func TestForsakeLeavesNothingBehind(t *testing.T) {
	entries := unfinished()
	ended, sends := history.Forsake(entries)
	if got, want := told(ended), "event:withdrawn kid:withdrawn queued:open"; got != want {
		t.Errorf("what changes is %q, want %q", got, want)
	}
	var topics []string
	for _, c := range sends {
		topics = append(topics, c.RunID+" "+c.Item.Kind.String())
	}
	want := []string{permit.EntityID("q") + " give back", event.EntityID("news") + " withdraw"}
	if slices.Sort(topics); !slices.Equal(topics, want) {
		t.Errorf("sent is %q, want %q", topics, want)
	}
	for _, e := range ended {
		switch e.Kind {
		case store.KindStep:
			if p, err := stored.DecodeProgress(e.Value); err != nil || p.Permit != nil || string(p.Detail) != "d" {
				t.Errorf("the step has %+v, %v", p, err)
			}
		case store.KindChild:
			if l, err := stored.DecodeLink(e.State, e.Value); err != nil || l.RunID != "kid" || l.Dropped <= 2 {
				t.Errorf("the child has %+v, %v", l, err)
			}
		}
	}
}

// The children that end with their parent are cancelled once per generation.
func TestOrphansAreCancelledOnce(t *testing.T) {
	run := store.Run{Seed: store.Seed{1}}
	first := history.Orphans(&run, unfinished(), nil)
	if len(first) != 1 || first[0].RunID != "kid" || first[0].Item.Kind != store.ItemCancel {
		t.Fatalf("cancelled are %+v", first)
	}
	if again := history.Orphans(&run, unfinished(), nil); again[0].Item.ID != first[0].Item.ID {
		t.Error("a repeat is another item")
	}
	if none := history.Orphans(&run, unfinished(), func(*store.Entry) bool { return false }); len(none) != 0 {
		t.Errorf("cancelled are %+v, though none is wanted", none)
	}
	run.Generation++
	if next := history.Orphans(&run, unfinished(), nil); next[0].Item.ID == first[0].Item.ID {
		t.Error("the next generation cancels with the same item")
	}
}
