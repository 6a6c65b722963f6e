package store

import "fmt"

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
	// ItemTerminate asks for the run to be ended at once.
	ItemTerminate ItemKind = 4
	// ItemResume asks for a stalled or paused run to go on.
	ItemResume ItemKind = 5
	// ItemEnd tells how another run has ended: a child of the run, or one that a
	// watch of this run waits for. Name says for which of them, and Failed that
	// there is no such run.
	ItemEnd ItemKind = 6
	// ItemWatch asks for an ItemEnd when the run has ended, at once if it has; the
	// owner sends it to the run that Value names. Its ID, Origin, Name, Incarnation
	// and Loc are those of the answer if no run gets it (law 15).
	ItemWatch ItemKind = 7
	// ItemUpdate is a message to the run, by Name, that its code answers.
	ItemUpdate ItemKind = 8

	// ItemPause asks for the run to be left alone until it is resumed.
	ItemPause ItemKind = 10
	// ItemRetry asks for a failed run to try again what has failed.
	ItemRetry ItemKind = 11
	// ItemRewind asks for a part of the history to be taken back.
	ItemRewind ItemKind = 12
	// ItemEdit asks for the outcome of a step to be replaced.
	ItemEdit ItemKind = 13

	// ItemEvent is an event for a topic, or what a topic is told of events.
	ItemEvent ItemKind = 20
	// ItemWait registers at a topic the wait that Name is the key of.
	ItemWait ItemKind = 21
	// ItemWithdraw ends that wait: what it was given is not taken.
	ItemWithdraw ItemKind = 22
	// ItemAck tells a topic that what that wait was given is taken.
	ItemAck ItemKind = 23
	// ItemReturn gives back to a topic what a run has taken.
	ItemReturn ItemKind = 24
	// ItemDelivery gives an event to the run's wait that Name is the key of.
	ItemDelivery ItemKind = 25

	// ItemAsk asks a queue for a permit.
	ItemAsk ItemKind = 30
	// ItemGrant gives a run the permit that it was Held for.
	ItemGrant ItemKind = 31
	// ItemGiveBack returns a permit to its queue, or takes back that it was asked for.
	ItemGiveBack ItemKind = 32
)

var itemNames = [...]string{"", "message", "resolution", "cancel", "terminate", "resume", "end", "watch", "update", 10: "pause", "retry", "rewind", "edit",
	20: "event", "wait", "withdraw", "ack", "return", "delivery", 30: "ask", "grant", "give back"}

// String returns the kind as users see it: "message", "resolution", …
func (k ItemKind) String() string {
	if k.Valid() {
		return itemNames[k]
	}
	return fmt.Sprintf("item(%d)", uint8(k))
}

// Valid reports whether k is one of the kinds above.
func (k ItemKind) Valid() bool { return int(k) < len(itemNames) && itemNames[k] != "" }

// Verb reports whether the item is a request about the run that its owner
// answers with a verdict, rather than something sent to its code.
func (k ItemKind) Verb() bool {
	switch k {
	case ItemCancel, ItemTerminate, ItemResume, ItemWatch, ItemPause, ItemRetry, ItemRewind, ItemEdit:
		return true
	}
	return false
}

// CanBeDead reports whether the item becomes a dead letter when nobody takes it:
// not if it is a verb or an update, which are answered, nor if it is between runs
// and records: an event that is not taken stays with its topic.
func (k ItemKind) CanBeDead() bool { return !k.Verb() && k != ItemUpdate && !k.ofEntities() }

func (k ItemKind) ofEntities() bool { return k >= ItemEvent && k <= ItemGiveBack }

// ItemState is the state of an inbox item. The numbers are stored.
type ItemState uint8

const (
	// New items have been examined by no turn; they make their run ready.
	New ItemState = 1
	// Seen items were examined and are kept for later.
	Seen ItemState = 2
	// Consumed items are done with. They stay, without their value, so that a
	// repeat is recognised.
	Consumed ItemState = 3
	// Dead items are dead letters: what was addressed to a run that ended without
	// taking it, or to an older incarnation. They keep their value.
	Dead ItemState = 4
)

// Outdated reports whether the item is addressed to an older incarnation of its
// run than the given one. A message is addressed to the run.
func (it *Item) Outdated(incarnation int) bool {
	return it.Kind != ItemMessage && it.Incarnation < incarnation
}

// Item is something that was sent to a run.
type Item struct {
	No          ItemNo
	Kind        ItemKind
	State       ItemState
	Name        string // of a message or update; of a verb who asks
	ID          string // unique in the run's inbox; never empty
	Origin      string // names the sending act; a repeat of the act has the same
	Incarnation int    // addressed incarnation of a resolution
	Generation  int    // of the run when what a resolution addresses was made
	Loc         string // addressed location of a resolution
	Failed      bool   // a resolution that rejects: Value is a failure record
	Sent        Time   // by the store's clock
	Value       []byte // nil: no value
	Headers     []byte // opaque to the store; nil: none; they go when the item is consumed
	Verdict     []byte // the owner's answer to a verb, or the code's to an update, once consumed
}
