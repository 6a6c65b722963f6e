package permit_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// The stored form does not change: what a release has written, each later one reads.
func TestStoredForm(t *testing.T) {
	place := permit.Place{Queue: "q", Key: "k", Priority: -1, Ticket: "t", Release: true, Cost: 9}
	settings := permit.Settings{Concurrency: 1, PerKey: 2, Rate: 3, Per: 4, Group: "g", Release: true, RatePerKey: 8}
	limits := &permit.Limits{
		Declared: permit.Settings{PerKey: 1}, Source: &permit.Source{By: "n", Build: "v1", At: 7},
		Override: &permit.Override{Settings: settings, Source: permit.Source{By: "ada", Why: "w", At: 8}},
	}
	change := permit.Change{Settings: settings, By: "n", Why: "w", Build: "v1"}
	state := permit.State{Limits: limits,
		Settings: settings, Exists: true, Paused: true, Waiting: 1, Delayed: 2, Held: 3, Granted: 4}
	ask := place.AskFor(permit.Ask{RunID: "r", At: 5, After: 6, Loc: "l"})
	for name, c := range map[string]struct{ got, want string }{
		"place": {string(place.Encode()), "\xa6\x01aq\x02ak\x03 \x04at\x05\xf5\x06\t"},
		"ask":   {string(ask.Item.Value), "\xa7\x01ar\x02ak\x03 \x04\x05\x05\x06\x06al\b\t"},
		"change": {string(change.Encode()),
			"\xa4\x01\xa7\x01\x01\x02\x02\x03\x03\x04\x04\x05ag\x06\xf5\a\b\x02an\x03aw\x04bv1"},
		"state": {string(state.Encode()),
			"\xa8\x01\xa7\x01\x01\x02\x02\x03\x03\x04\x04\x05ag\x06\xf5\a\b\x02\xf5\x03\xf5\x04\x01\x05\x02\x06\x03\a\x04" +
				"\b\xa3\x01\xa1\x02\x01\x02\xa3\x01an\x03bv1\x04\a" +
				"\x03\xa2\x01\xa7\x01\x01\x02\x02\x03\x03\x04\x04\x05ag\x06\xf5\a\b\x02\xa3\x01cada\x02aw\x04\b"},
	} {
		if c.got != c.want {
			t.Errorf("a %s is stored as %q, want %q", name, c.got, c.want)
		}
	}
	if got, ok, err := permit.DecodePlace(place.Encode()); !reflect.DeepEqual(got, place) || !ok || err != nil {
		t.Errorf("the place comes back as %+v, %t, %v", got, ok, err)
	}
	if got, err := permit.DecodeChange(change.Encode()); got != change || err != nil {
		t.Errorf("the change comes back as %+v, %v", got, err)
	}
	if got, err := permit.DecodeState(state.Encode()); !reflect.DeepEqual(got, state) || err != nil {
		t.Errorf("the state comes back as %+v, %v", got, err)
	}
	want := permit.Ask{RunID: "r", Key: "k", Priority: -1, At: 5, After: 6, Loc: "l", Cost: 9}
	if got, err := permit.DecodeAsk(ask.Item.Value); !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("the ask comes back as %+v, %v", got, err)
	}
}

// A run without a place is on no queue; a place that cannot be read is an error.
func TestDecodePlace(t *testing.T) {
	if _, ok, err := permit.DecodePlace(nil); ok || err != nil {
		t.Errorf("no place is %t, %v", ok, err)
	}
	if _, ok, err := permit.DecodePlace([]byte("x")); ok || !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a damaged place is %t, %v", ok, err)
	}
}

// Ask, grant and give back of one ticket are three items, each of which is the same
// when it is repeated.
func TestItemsOfATicket(t *testing.T) {
	p := permit.Place{Queue: "q", Ticket: permit.NewTicket()}
	if p.Ticket == permit.NewTicket() {
		t.Fatal("two tickets are the same")
	}
	ids := map[string]bool{}
	for _, c := range []struct {
		kind    store.ItemKind
		to      string
		command func() store.Command
	}{
		{store.ItemAsk, permit.EntityID("q"), func() store.Command { return p.AskFor(permit.Ask{RunID: "r"}) }},
		{store.ItemGrant, "r", func() store.Command { return permit.Grant("r", p.Ticket) }},
		{store.ItemGiveBack, permit.EntityID("q"), p.GiveBack},
	} {
		first, again := c.command(), c.command()
		it := first.Item
		if first.RunID != c.to || it.Kind != c.kind || permit.Ticket(it) != p.Ticket {
			t.Errorf("%s: the item is %+v, to %q", c.kind, it, first.RunID)
		}
		if it.ID != again.Item.ID || ids[it.ID] {
			t.Errorf("%s: the IDs are %q and %q", c.kind, it.ID, again.Item.ID)
		}
		ids[it.ID] = true
	}
	if queue, ok := permit.Queue(permit.EntityID("q")); !ok || queue != "q" {
		t.Errorf("the entity is that of queue %q", queue)
	}
	if _, ok := permit.Queue("order-42"); ok {
		t.Error("any run is a queue")
	}
}

// A run executes by the grant of its own ticket, not by that of a step or of another
// ticket.
func TestGranted(t *testing.T) {
	p := permit.Place{Queue: "q", Ticket: "t"}
	ask := permit.Ask{RunID: "r", Loc: "l"}
	for name, c := range map[string]struct {
		command store.Command
		want    bool
	}{
		"its own":          {permit.Grant("r", "t"), true},
		"another ticket's": {permit.Grant("r", "u"), false},
		"a step's":         {permit.GrantStep("q", "t", "r", "l"), false},
		"no grant":         {p.AskFor(ask), false},
	} {
		if got := p.Granted([]store.Item{*c.command.Item}); got != c.want {
			t.Errorf("%s: granted is %t", name, got)
		}
	}
	none := permit.Place{Queue: "q"}
	if none.Granted([]store.Item{*permit.Grant("r", "").Item}) {
		t.Error("a place without a ticket is granted")
	}
}

// The grant of a step says which step it is for. The permit goes back to the queue that
// has granted it.
func TestGrantOfAStep(t *testing.T) {
	c := permit.GrantStep("q", "t", "r", "l")
	if c.RunID != "r" || !permit.OfStep(c.Item) || c.Item.Loc != "l" {
		t.Errorf("the item is %+v, to %q", c.Item, c.RunID)
	}
	back := permit.Return(c.Item)
	if back.RunID != permit.EntityID("q") || back.Item.Kind != store.ItemGiveBack || permit.Ticket(back.Item) != "t" {
		t.Errorf("it goes back as %+v, to %q", back.Item, back.RunID)
	}
	if permit.OfStep(permit.Grant("r", "t").Item) {
		t.Error("the run's own grant is a step's")
	}
}

// A run says whether it holds its permit while it is suspended.
func TestReleases(t *testing.T) {
	keeps, releases := permit.Place{Queue: "q"}, permit.Place{Queue: "q", Release: true}
	for name, c := range map[string]struct {
		queue []byte
		want  bool
	}{
		"keeps": {keeps.Encode(), false}, "releases": {releases.Encode(), true}, "no queue": {nil, false},
		"damaged": {[]byte("x"), false},
	} {
		if got := permit.Releases(&store.Run{Queue: c.queue}); got != c.want {
			t.Errorf("%s: releases is %t", name, got)
		}
	}
}
