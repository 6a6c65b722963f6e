package permit

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"github.com/stet-run/stet/store"
)

// This file is about items that speak for several steps of one run. A run whose branches
// ask for a hundred permits in one turn sends the queue one item; it gets one for all that
// are granted in one turn of the queue, and so on. What an item costs a store does not
// depend on what it holds.

// Back returns the command that gives back the permits of tickets of a queue. There is at
// least one ticket.
func Back(queue string, tickets []string) store.Command {
	all := make([]Given, len(tickets))
	for i, ticket := range tickets {
		all[i] = Given{Ticket: ticket, Spent: AsAsked}
	}
	return GiveBack(queue, all)
}

// Given is a permit that is given back.
type Given struct {
	Ticket string
	Spent  int // units of a rate that it took; AsAsked: its cost
}

// AsAsked says that a permit took as many units of a rate as were asked for.
const AsAsked = -1

// given is the value of an item that gives back, where some have spent what is known.
type given struct {
	More  []string `cbor:"1,keyasint,omitempty"` // tickets
	Spent []int    `cbor:"2,keyasint"`           // of the first ticket and of More
}

// GiveBack returns the command that gives back permits of a queue. There is at least one.
func GiveBack(queue string, all []Given) store.Command {
	p := Place{Queue: queue, Ticket: all[0].Ticket}
	c := p.GiveBack()
	tickets, spent := make([]string, len(all)), make([]int, len(all))
	for i, g := range all {
		tickets[i], spent[i] = g.Ticket, g.Spent
	}
	several(c.Item, backPrefix, tickets)
	if slices.ContainsFunc(spent, func(n int) bool { return n != AsAsked }) {
		c.Item.Value = encode(given{tickets[1:], spent})
	}
	return c
}

// GivenBack returns the permits that an item gives back.
func GivenBack(it *store.Item) []Given {
	tickets := Tickets(it)
	all := make([]Given, len(tickets))
	var g given
	known := cbor.Unmarshal(it.Value, &g) == nil && len(g.Spent) == len(tickets)
	for i := range tickets {
		if all[i] = (Given{tickets[i], AsAsked}); known {
			all[i].Spent = g.Spent[i]
		}
	}
	return all
}

// StepGrant is the permit that one step of a run is granted.
type StepGrant struct{ Ticket, Loc string }

// GrantSteps returns the command that grants steps of a run permits of a queue. There is at
// least one.
func GrantSteps(queue, runID string, grants []StepGrant) store.Command {
	c := GrantStep(queue, grants[0].Ticket, runID, grants[0].Loc)
	tickets := make([]string, len(grants))
	for i := range grants {
		tickets[i] = grants[i].Ticket
	}
	several(c.Item, grantPrefix, tickets)
	return c
}

// several gives an item further tickets, and an ID that no other set of tickets has.
func several(it *store.Item, prefix string, tickets []string) {
	if len(tickets) > 1 {
		it.ID, it.Value = prefix+digest(tickets), encode(tickets[1:])
	}
}

func digest(tickets []string) string {
	h := sha256.New()
	for _, t := range tickets {
		h.Write([]byte(t))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Tickets returns the tickets of a grant or a give back. Those of one that cannot be read
// are the first alone.
func Tickets(it *store.Item) []string {
	tickets := []string{Ticket(it)}
	if len(it.Value) == 0 {
		return tickets
	}
	var more []string
	if cbor.Unmarshal(it.Value, &more) == nil {
		return append(tickets, more...)
	}
	var g given
	if it.Kind == store.ItemGiveBack && cbor.Unmarshal(it.Value, &g) == nil {
		return append(tickets, g.More...)
	}
	return tickets
}

// Pack returns what a turn sends, with one item for all asks of its steps to a queue, and
// one for all permits that it gives back to a queue. It may change the commands.
func Pack(sends []store.Command) []store.Command {
	asks, backs := map[string][]int{}, map[string][]int{} // places in sends, by entity
	for i := range sends {
		switch it := sends[i].Item; {
		case it == nil:
		case it.Kind == store.ItemAsk:
			asks[sends[i].RunID] = append(asks[sends[i].RunID], i)
		case it.Kind == store.ItemGiveBack && !IsRecall(it):
			backs[sends[i].RunID] = append(backs[sends[i].RunID], i)
		}
	}
	gone := make(map[int]bool)
	for _, at := range asks {
		packAsks(sends, at, gone)
	}
	for entityID, at := range backs {
		if len(at) == 1 {
			continue
		}
		var all []Given
		for _, i := range at {
			all, gone[i] = append(all, GivenBack(sends[i].Item)...), true
		}
		queue, _ := Queue(entityID)
		sends[at[0]], gone[at[0]] = GiveBack(queue, all), false
	}
	if len(gone) == 0 {
		return sends
	}
	kept := sends[:0]
	for i := range sends {
		if !gone[i] {
			kept = append(kept, sends[i])
		}
	}
	return kept
}

// packAsks puts the asks of steps at some places into the first one, and notes the others.
func packAsks(sends []store.Command, at []int, gone map[int]bool) {
	var first *store.Item
	var all Ask
	var tickets []string
	for _, i := range at {
		it := sends[i].Item
		ask, err := DecodeAsk(it.Value)
		if err != nil || ask.Loc == "" || ask.At != 0 || ask.After != 0 || ask.More != nil {
			continue // of a run
		}
		if tickets = append(tickets, Ticket(it)); first == nil {
			first, all = it, ask
			continue
		}
		gone[i] = true
		all.More = append(all.More, MoreAsk{Ticket: Ticket(it), Loc: ask.Loc, Key: ask.Key, Priority: ask.Priority,
			Cost: ask.Cost, Task: ask.Task})
	}
	if len(tickets) > 1 {
		first.ID, first.Value = askPrefix+digest(tickets), encode(all)
	}
}
