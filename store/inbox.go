package store

import (
	"context"
	"fmt"
)

// ItemNo numbers the items of a store; within one run the order of the numbers
// is the order in which the items became visible.
type ItemNo int64

// ItemKind says what an inbox item is. The numbers are stored.
type ItemKind uint8

const (
	// ItemMessage is a message to the run, by Name.
	ItemMessage ItemKind = 1
	// ItemResolution settles the promise at Loc of Incarnation.
	ItemResolution ItemKind = 2
	// ItemCancel asks the run to cancel.
	ItemCancel ItemKind = 3
	// ItemTerminate asks the owner to end the run at once.
	ItemTerminate ItemKind = 4
	// ItemResume asks a stalled or paused run to go on.
	ItemResume ItemKind = 5
	// ItemEnd reports the end of another run: of a child, or of a run that this run
	// watches. Name says which. Failed: there is no such run.
	ItemEnd ItemKind = 6
	// ItemWatch requests an ItemEnd when the run has ended. The owner sends it to the run
	// that Value names. If no run gets the watch, its answer has the same ID, Origin,
	// Name, Incarnation and Loc (law 15).
	ItemWatch ItemKind = 7
	// ItemUpdate is a message to the run, by Name, that its code answers.
	ItemUpdate ItemKind = 8

	// ItemPause requests that the run rests until it is resumed.
	ItemPause ItemKind = 10
	// ItemRetry asks a failed run to repeat its failed operations.
	ItemRetry ItemKind = 11
	// ItemRewind requests that a part of the history is taken back.
	ItemRewind ItemKind = 12
	// ItemEdit requests that the outcome of a step is replaced.
	ItemEdit ItemKind = 13
	// ItemNudge requests that the code of a suspended run is executed as far as it goes, as
	// it is when one of its waits is over.
	ItemNudge ItemKind = 14

	// ItemEvent is an event for a topic, or a request about the topic's events.
	ItemEvent ItemKind = 20
	// ItemWait registers a wait at a topic. Name is the wait's key, here and below.
	ItemWait ItemKind = 21
	// ItemWithdraw ends that wait and refuses an event that was delivered to it.
	ItemWithdraw ItemKind = 22
	// ItemAck confirms to a topic that the run has taken the event delivered to that wait.
	ItemAck ItemKind = 23
	// ItemReturn returns an event that a run had taken to its topic.
	ItemReturn ItemKind = 24
	// ItemDelivery gives an event to a wait of the run.
	ItemDelivery ItemKind = 25

	// ItemAsk asks a queue for a permit.
	ItemAsk ItemKind = 30
	// ItemGrant gives a run the permit for which it is Held.
	ItemGrant ItemKind = 31
	// ItemGiveBack returns a permit to its queue, or withdraws the request for one.
	ItemGiveBack ItemKind = 32
)

var itemNames = [...]string{
	"", "message", "resolution", "cancel", "terminate", "resume", "end", "watch", "update",
	10: "pause", "retry", "rewind", "edit", "nudge",
	20: "event", "wait", "withdraw", "ack", "return", "delivery", 30: "ask", "grant", "give back",
}

// String returns the kind as users see it: "message", "resolution", …
func (k ItemKind) String() string {
	if k.Valid() {
		return itemNames[k]
	}
	return fmt.Sprintf("item(%d)", uint8(k))
}

// MarshalText returns the name. A number without a name is an error.
func (k ItemKind) MarshalText() ([]byte, error) { return textOf("kind of an item", itemNames[:], k) }

// UnmarshalText is the inverse of MarshalText. A text that is no name is an error and changes nothing.
func (k *ItemKind) UnmarshalText(text []byte) error {
	return fromText("kind of an item", itemNames[:], k, text)
}

// Valid reports whether k is one of the kinds above.
func (k ItemKind) Valid() bool { return int(k) < len(itemNames) && itemNames[k] != "" }

// Verb reports whether the item is a request about the run, which its owner answers with
// a verdict; other items are for the run's code or entity.
func (k ItemKind) Verb() bool {
	switch k {
	case ItemCancel, ItemTerminate, ItemResume, ItemWatch, ItemPause, ItemRetry, ItemRewind, ItemEdit,
		ItemNudge:
		return true
	}
	return false
}

// CanBeDead reports whether the item becomes a dead letter when the run ends without
// taking it. Verbs and updates do not: they are answered. Nor do items between runs and
// entities: an event that no run takes stays with its topic.
func (k ItemKind) CanBeDead() bool { return !k.Verb() && k != ItemUpdate && !k.ofEntities() }

// CanBeRefused reports whether the run's code may refuse the item: what can be dead, and
// an event that was delivered to it.
func (k ItemKind) CanBeRefused() bool { return k.CanBeDead() || k == ItemDelivery }

// RefusedID returns the ID of a refused resolution, in place of that which it has given up.
func RefusedID(no ItemNo) string { return fmt.Sprintf("refused:%d", no) }

func (k ItemKind) ofEntities() bool { return k >= ItemEvent && k <= ItemGiveBack }

// ItemState is the state of an inbox item. The numbers are stored.
type ItemState uint8

const (
	// New items have been examined by no turn; they make their run ready.
	New ItemState = 1
	// Seen items were examined and are kept for later.
	Seen ItemState = 2
	// Consumed items are used up. They stay, without their value, so that a repeated
	// send is recognised.
	Consumed ItemState = 3
	// Dead items are dead letters: their run ended without taking them, or has refused them,
	// or they were addressed to an older incarnation. They keep their value.
	Dead ItemState = 4
)

var itemStateNames = [...]string{"", "new", "seen", "consumed", "dead"}

// MarshalText returns the name. A number without a name is an error.
func (s ItemState) MarshalText() ([]byte, error) {
	return textOf("state of an item", itemStateNames[:], s)
}

// UnmarshalText is the inverse of MarshalText. A text that is no name is an error and changes nothing.
func (s *ItemState) UnmarshalText(text []byte) error {
	return fromText("state of an item", itemStateNames[:], s, text)
}

// Keyed reports whether another act may send the item again. A message whose ID is its
// Origin is known to the act alone that has sent it.
func (it *Item) Keyed() bool { return it.Kind != ItemMessage || it.ID != it.Origin }

// Window is how long after its sending the item stays once it is consumed.
func (it *Item) Window() Delay {
	if it.Keyed() {
		return DedupWindow
	}
	return RepeatWindow
}

// Outdated reports whether the item is addressed to an older incarnation of its
// run than the given one. A message is addressed to the run.
func (it *Item) Outdated(incarnation int) bool {
	return it.Kind != ItemMessage && it.Incarnation < incarnation
}

// Item is one thing that was sent to a run.
type Item struct {
	No          ItemNo
	Kind        ItemKind
	State       ItemState
	Name        string // of a message or update; of a verb: the person or program that requests it
	ID          string // unique in the run's inbox; never empty
	Origin      string // names the sending act; a repeat of the act has the same
	Incarnation int    // addressed incarnation of a resolution
	Generation  int    // of the run when the promise that a resolution addresses was made
	Loc         string // addressed location of a resolution
	Failed      bool   // a resolution that rejects: Value is a failure record
	Sent        Time   // by the store's clock
	Value       []byte // nil: no value, or left out
	Size        int    // of a value that was left out (LeaveOut); 0: it was not
	Headers     []byte // opaque to the store; nil: none; they go when the item is consumed
	// Verdict is the owner's answer to a verb, or the code's to an update, once consumed; of
	// an item that was refused the reason; nil: none.
	Verdict []byte
}

// PendingQuery selects items of one run's inbox that are new or seen.
type PendingQuery struct {
	Run   RunNo
	Kinds []ItemKind // one of these; nil: any kind
	Name  string     // with this name; "": any name
}

// Pending is the sum of the items that a PendingQuery selects. The zero Pending is that of a run that does not exist.
type Pending struct {
	Items int    // how many there are
	Bytes int64  // of their values, without headers
	Last  string // the ID of the last one, by number; "": there is none
}

// LeavesOut reports whether Load, Claim, and Inbox without IDs leave out a value of so many bytes of an item of
// the kind: an inbox may hold many messages that nobody has received.
func (k ItemKind) LeavesOut(size int) bool {
	return (k == ItemMessage || k == ItemUpdate) && size >= LargeValue
}

// LeaveOut leaves the item's value out, if its kind and size are such.
func (it *Item) LeaveOut() {
	if it.Kind.LeavesOut(len(it.Value)) {
		it.Value, it.Size = nil, len(it.Value)
	}
}

// FillItems reads the values that were left out of items of a run. It reports false if one
// of the items is not pending any more.
func FillItems(ctx context.Context, s Store, run RunNo, items []Item) (complete bool, err error) {
	var ids []string
	places := map[ItemNo]*Item{}
	for i := range items {
		if it := &items[i]; it.Size > 0 {
			ids, places[it.No] = append(ids, it.ID), it
		}
	}
	if len(ids) == 0 {
		return true, nil
	}
	whole, err := s.Inbox(ctx, run, ids...)
	for i := range whole {
		if it := places[whole[i].No]; it != nil && whole[i].Value != nil {
			it.Value, it.Size = whole[i].Value, 0
			delete(places, it.No)
		}
	}
	return len(places) == 0, err
}
