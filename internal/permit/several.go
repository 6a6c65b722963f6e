package permit

import (
	"crypto/sha256"
	"encoding/hex"

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
	p := Place{Queue: queue, Ticket: tickets[0]}
	c := p.GiveBack()
	several(c.Item, backPrefix, tickets)
	return c
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
	if cbor.Unmarshal(it.Value, &more) != nil {
		return tickets
	}
	return append(tickets, more...)
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
		case it.Kind == store.ItemGiveBack:
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
		var tickets []string
		for _, i := range at {
			tickets, gone[i] = append(tickets, Tickets(sends[i].Item)...), true
		}
		queue, _ := Queue(entityID)
		sends[at[0]], gone[at[0]] = Back(queue, tickets), false
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
		all.More = append(all.More, MoreAsk{Ticket: Ticket(it), Loc: ask.Loc, Key: ask.Key, Priority: ask.Priority})
	}
	if len(tickets) > 1 {
		first.ID, first.Value = askPrefix+digest(tickets), encode(all)
	}
}
