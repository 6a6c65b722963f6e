package history_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// A fork has the history that stands, of which what the other run handed out is not
// its own, and the inbox as a rewind would leave it.
func TestForkSharesWhatStands(t *testing.T) {
	receipt := func(id string, no store.ItemNo) []byte {
		return stored.EncodeReceipt([]stored.Message{{No: no, Name: "m", ID: id, Value: []byte("of " + id)}})
	}
	older := func(e *store.Entry) { e.Generation = 2 }
	place := permit.Place{Queue: "q", Ticket: "t"}
	delivery := event.Delivery{Topic: "news", Key: "w", Event: event.Event{ID: "e", Mode: event.Consumed}}
	entries := sorted(
		recorded("stands", store.KindReceive, 1, 0, with(receipt("one", 1)), older),
		recorded("kid", store.KindChild, 0, 1, with(stored.Link{RunID: "kid"}.Encode())),
		recorded("alone", store.KindChild, 0, 1, with(stored.Link{RunID: "alone", Leave: true, Detached: true}.Encode())),
		recorded("event", store.KindEvent, 2, 1, with(event.Encode(&delivery))),
		recorded("wait", store.KindEvent, 0, 1, with(event.Encode(&event.Wait{Topic: "news", Key: "x"}))),
		recorded("queued", store.KindStep, 0, 1, with(stored.Progress{Permit: &place}.Encode())),
		recorded("promise", store.KindPromise, 3, 1),
		recorded("goes", store.KindReceive, 4, 3, with(receipt("two", 2))),
		recorded("update", store.KindReceive, 5, 4, with(receipt("three", 3))),
	)
	s := &store.Snapshot{Run: store.Run{Seed: store.Seed{1}, Started: 5}, Entries: entries, Items: []store.Item{
		{Kind: store.ItemMessage, No: 9, ID: "pending", State: store.Seen, Verdict: []byte("y")},
		{Kind: store.ItemPause, No: 10, ID: "pause"},
	}}
	ids, err := history.Consumed(entries)
	if slices.Sort(ids); err != nil || !slices.Equal(ids, []string{"one", "three", "two"}) {
		t.Errorf("consumed are %q, %v", ids, err)
	}
	kinds := map[string]store.ItemKind{"three": store.ItemUpdate}
	f, back, err := history.Fork(s, path("goes"), kinds, 77)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := told(f.Entries),
		"alone:open event:2 kid:withdrawn promise:3 queued:open stands:1 wait:withdrawn"; got != want {
		t.Errorf("the fork has %q, want %q", got, want)
	}
	if f.Random != s.Run.Seed || f.Started != 5 || back.Deleted != 2 {
		t.Errorf("the fork is %+v, without %s", f, back)
	}
	for _, e := range f.Entries {
		if e.Generation != 0 || e.Size != 0 {
			t.Errorf("%s keeps generation %d and size %d", e.Loc, e.Generation, e.Size)
		}
		switch e.Loc {
		case string(path("kid")):
			if l, err := stored.DecodeLink(e.State, e.Value); err != nil || !l.Leave || l.RunID != "kid" {
				t.Errorf("the child is %+v, %v: it is cancelled with the fork", l, err)
			}
		case string(path("event")):
			var d event.Delivery
			if err := event.Decode(e.Value, &d); err != nil || d.Key != "" || d.Event.ID != "e" {
				t.Errorf("the event is %+v, %v: the fork gives it back as its own", d, err)
			}
		case string(path("queued")):
			if p, err := stored.DecodeProgress(e.Value); err != nil || p.Permit != nil {
				t.Errorf("the step has the other run's permit: %+v, %v", p, err)
			}
		}
	}
	var items []string
	for _, it := range f.Items {
		items = append(items, fmt.Sprint(it.No, " ", it.Kind, " ", it.ID, " ", it.State == store.New, " ", string(it.Value)))
	}
	want := []string{
		"0 resolution " + stored.ResolutionID(string(path("promise")), 0, 0) + " false ",
		"1 message one false ", "2 message two true of two", "9 message pending true ",
	}
	if !slices.Equal(items, want) {
		t.Errorf("the inbox is %q, want %q", items, want)
	}
}
