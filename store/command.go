package store

// Command is an act that may come from anywhere: the start of a run, or an item
// for a run's inbox. Exactly one of Start and Item is set.
type Command struct {
	Start *Start

	RunID string // receiver of Item
	RunNo RunNo  // in place of RunID: its number
	Item  *Item  // Kind, Name, ID, Origin, Incarnation, Loc, Failed and Value are given; ID not empty

	// Claim asks, in a [Batch], also in a turn of it, that holds the lease of the run's shard, for the
	// run to be claimed in the same act: a started one if it is due, an existing
	// one if it is queued and due, or suspended. Elsewhere it is ignored.
	Claim bool
}

// Start asks for a new run.
type Start struct {
	ID       string // 1 to 255 bytes
	Shard    Shard
	Workflow string
	Seed     Seed   // recognises a repeat of this very start
	Input    []byte // nil: no value
	At       Time   // not before; 0: now
	After    Delay  // not before the store's time plus this; 0: now
	Existing ExistingPolicy
	Items    []Item      // first messages, as in Command.Item
	Tags     []Pair      // no two of one key, no empty value
	Headers  []byte      // opaque to the store; nil: none
	Queue    *QueueEntry // nil: in none
	Build    string      // the run's, if it is claimed in the act that makes it; not of a fork; "": none

	Parent    RunNo
	ParentLoc string

	Fork *Fork // nil: it begins without a history
}

// QueueEntry is where a run that is started stands in a queue. It is Held (law 28), so
// that At and After of its Start are 0.
type QueueEntry struct {
	Data []byte // becomes the run's Queue; not nil
	// Ask sends an item to another run, the queue's record, in the act that makes
	// the run. It adopts nothing, and its answer is not told.
	Ask Command
}

// Fork is what a run that is forked from another begins with.
type Fork struct {
	Random  Seed    // the randomness of the other
	Started Time    // when the other was first claimed
	Entries []Entry // of incarnation 0
	// Items precede those of the Start. Of each also Sent is given, and whether it
	// is Consumed, and then has no value, or New.
	Items []Item
	Audit []Audit
}

// Delay is a duration in microseconds.
type Delay int64

// ExistingPolicy says what a start does when a run with its ID exists.
type ExistingPolicy uint8

const (
	// KeepExisting leaves the existing run alone; the answer is Exists.
	KeepExisting ExistingPolicy = iota
	// ReplaceFailed starts anew if the existing run has failed or was cancelled;
	// the old run is from then on addressed as ID@N with its run number N. If
	// another run has that name, or it is too long for one, the answer is Exists.
	ReplaceFailed
)

// Outcome is what became of a command.
type Outcome uint8

const (
	// Applied: done now, or by an earlier try of the same act (same seed of a
	// start; same item ID and origin).
	Applied Outcome = 1
	// Exists: a run with this ID exists; Answer.Run holds it. Nothing changed.
	Exists Outcome = 2
	// Duplicate: the run has an item with this ID from another act. Nothing changed.
	Duplicate Outcome = 3
	// NotFound: no run has this ID. Nothing changed.
	NotFound Outcome = 4
	// Ended: the run is terminal and the item is no verb. Nothing changed.
	// Verbs are accepted by terminal runs and answered by the owner.
	Ended Outcome = 5
	// Undecided: of a command in a Batch, a transaction that somebody else has
	// begun, and not ended, decides what becomes of it. Nothing changed. It may be
	// given to Apply, which waits for the transaction.
	Undecided Outcome = 6
)

// Answer is what became of one command.
type Answer struct {
	Outcome  Outcome
	Run      Run    // as it is after the act, with Input, without Output; zero for NotFound
	Item     ItemNo // of the applied or the earlier item
	Repeated bool   // with Item: an act before this one has sent it, so it may be consumed; also in a repeat
	Claimed  bool   // the run was adopted by this act; in a repeat: is claimed and was to be adopted
}
