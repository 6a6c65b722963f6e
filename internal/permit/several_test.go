package permit_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// asks returns the asks of steps of a run for permits of a queue, one for each ticket.
func asks(queue string, tickets ...string) (all []store.Command) {
	for i, t := range tickets {
		p := permit.Place{Queue: queue, Key: "k" + t, Priority: i, Ticket: t}
		all = append(all, p.AskFor(permit.Ask{RunID: "r", Loc: "l" + t}))
	}
	return all
}

// TestPack: what a turn says to a queue is one item for all asks of its steps, and one for
// all permits that it gives back. Other commands stay where they are.
func TestPack(t *testing.T) {
	place := permit.Place{Queue: "q", Ticket: "own"}
	other := store.Command{RunID: "other", Item: &store.Item{Kind: store.ItemMessage, ID: "m"}}
	child := store.Command{Start: &store.Start{ID: "child"}}
	own := place.AskFor(permit.Ask{RunID: "r"})
	sends := slices.Concat(asks("q", "a"), []store.Command{other, own}, asks("q2", "x"), asks("q", "b", "c"),
		[]store.Command{child, permit.Back("q", []string{"d"}), permit.Back("q", []string{"e", "f"}),
			permit.Back("q2", []string{"y"})})
	packed := permit.Pack(sends)
	var got []string
	for i := range packed {
		c := &packed[i]
		switch {
		case c.Start != nil:
			got = append(got, "start")
		case c.Item.Kind == store.ItemAsk:
			a, err := permit.DecodeAsk(c.Item.Value)
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf("ask %s %s%s", c.RunID, permit.Ticket(c.Item), a.Loc)
			for _, m := range a.More {
				text += fmt.Sprintf(" %s%s%s%d", m.Ticket, m.Loc, m.Key, m.Priority)
			}
			got = append(got, text)
		case c.Item.Kind == store.ItemGiveBack:
			got = append(got, fmt.Sprintf("back %s %s", c.RunID, permit.Tickets(c.Item)))
		default:
			got = append(got, c.Item.ID)
		}
	}
	want := []string{
		"ask stet.queue/q ala blbkb0 clckc1", "m", "ask stet.queue/q own", "ask stet.queue/q2 xlx", "start",
		"back stet.queue/q [d e f]", "back stet.queue/q2 [y]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("packed:\n%q; want\n%q", got, want)
	}
}

// TestItemsOfSeveralTickets: the ID says which tickets an item has, all of them. A store
// takes an item with an ID that it knows for a repetition, and drops it.
func TestItemsOfSeveralTickets(t *testing.T) {
	ids := map[string]bool{}
	for _, tickets := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "bc"}, {"b", "a"}} {
		var grants []permit.StepGrant
		for _, name := range tickets {
			grants = append(grants, permit.StepGrant{Ticket: name, Loc: "l" + name})
		}
		back, grant := permit.Back("q", tickets), permit.GrantSteps("q", "r", grants)
		for _, c := range []store.Command{back, grant, permit.Pack(asks("q", tickets...))[0]} {
			if ids[c.Item.ID] {
				t.Errorf("%q: the ID %q is that of another item", tickets, c.Item.ID)
			}
			ids[c.Item.ID] = true
		}
		if !slices.Equal(permit.Tickets(back.Item), tickets) || !slices.Equal(permit.Tickets(grant.Item), tickets) {
			t.Errorf("%q: given back are %q, granted %q", tickets, permit.Tickets(back.Item), permit.Tickets(grant.Item))
		}
		if again := permit.Return(grant.Item); again.Item.ID != back.Item.ID || again.RunID != back.RunID {
			t.Errorf("%q: the grant is returned by %+v", tickets, again.Item)
		}
	}
	unreadable := &store.Item{Kind: store.ItemGrant, Origin: "a", Value: []byte("\xff")}
	if got := permit.Tickets(unreadable); !slices.Equal(got, []string{"a"}) {
		t.Errorf("an item that cannot be read has the tickets %q", got)
	}
}

// TestGiveBackSays what has been spent, alone and packed with others; what is given back as it
// was asked for has the form that it always had.
func TestGiveBackSays(t *testing.T) {
	plain := permit.Given{Ticket: "a", Spent: permit.AsAsked}
	spent, none := permit.Given{Ticket: "b", Spent: 70}, permit.Given{Ticket: "c"}
	back := func(all ...permit.Given) store.Command { return permit.GiveBack("q", all) }
	if it := back(plain).Item; it.Value != nil {
		t.Errorf("what has spent its cost is given back with %x", it.Value)
	}
	for _, c := range []struct {
		sends []store.Command
		want  []permit.Given
	}{
		{[]store.Command{back(plain)}, []permit.Given{plain}},
		{[]store.Command{back(spent)}, []permit.Given{spent}},
		{[]store.Command{back(none)}, []permit.Given{none}},
		{[]store.Command{back(plain), back(spent)}, []permit.Given{plain, spent}},
		{[]store.Command{back(spent, plain), back(none)}, []permit.Given{spent, plain, none}},
	} {
		packed := permit.Pack(c.sends)
		if len(packed) != 1 {
			t.Fatalf("%d commands", len(packed))
		}
		it := packed[0].Item
		if got := permit.GivenBack(it); !slices.Equal(got, c.want) || len(permit.Tickets(it)) != len(c.want) ||
			permit.Ticket(it) != c.want[0].Ticket {
			t.Errorf("%+v comes back as %+v, of tickets %q", c.want, got, permit.Tickets(it))
		}
	}
	old := permit.Back("q", []string{"a", "b"})
	if got := permit.GivenBack(old.Item); !slices.Equal(got, []permit.Given{plain, {Ticket: "b", Spent: permit.AsAsked}}) {
		t.Errorf("one without amounts gives back %+v", got)
	}
}
