package store

// Command is an act that may come from anywhere: the start of a run, or an item
// for a run's inbox. Exactly one of Start, Item and Admit is set.
type Command struct {
	Start *Start

	RunID string // receiver of Item
	RunNo RunNo  // the receiver's number, instead of RunID; of Admit, the run that is admitted
	Item  *Item  // Kind, Name, ID, Origin, Incarnation, Loc, Failed and Value are given; ID not empty
	// Admit admits the run with the number, which waits in the line of a queue (law 32). It is the ID of the queue's
	// entity, and counts only among the Sends of a turn of this entity.
	Admit string

	// Claim requests that the run is claimed in the same act: a started run if it is due,
	// an existing one if it is queued and due, or suspended. It counts only in a [Batch],
	// and in the turns of one, that holds the lease of the run's shard.
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
	Tags     []Pair      // at most one for each key, no empty value
	Headers  []byte      // opaque to the store; nil: none
	Queue    *QueueEntry // nil: in none
	Build    string      // of the run, if the act that creates it claims it; not of a fork; "": none

	Parent    RunNo
	ParentLoc string

	Fork *Fork // nil: the run begins without a history
}

// Due returns when the run of a start may begin that is carried out at the time now: the latest of now, At, and After
// from now.
func (s *Start) Due(now Time) Time { return max(now, s.At, now+Time(s.After)) }

// QueueEntry is the place of a new run in a queue. The run is Held. Either it waits in a line, or it asks.
type QueueEntry struct {
	Data []byte // becomes the run's Queue; not nil
	// Ask sends an item to the queue's entity in the act that creates the run (law 28). It claims
	// nothing, and its answer is not returned. At and After of the Start are 0.
	Ask Command
	// Line is where the run waits (law 31): from the At and After of the Start on, which it has no longer. nil: it asks.
	Line *Line
}

// Fork is the state with which a forked run begins.
type Fork struct {
	Random  Seed    // the randomness of the original
	Started Time    // when the original was first claimed
	Entries []Entry // of incarnation 0
	// Items precede those of the Start. Each has Sent and State too: New, or Consumed and
	// then without a value.
	Items []Item
	Audit []Audit
}

// Delay is a duration in microseconds.
type Delay int64

// ExistingPolicy says how a start treats an existing run with its ID.
type ExistingPolicy uint8

const (
	// KeepExisting leaves the existing run alone; the answer is Exists.
	KeepExisting ExistingPolicy = iota
	// ReplaceFailed starts a new run if the existing one has failed or was cancelled. The
	// old run is then addressed as ID@N, with its run number N. If another run has that
	// name, or it is too long, the answer is Exists.
	ReplaceFailed
	// ReplaceEnded is ReplaceFailed for a run that has succeeded too.
	ReplaceEnded
)

var existingNames = [...]string{"keep", "replace-failed", "replace-ended"}

// MarshalText returns the name. A number without a name is an error.
func (p ExistingPolicy) MarshalText() ([]byte, error) {
	return textOf("policy on an existing run", existingNames[:], p)
}

// UnmarshalText is the inverse of MarshalText. A text that is no name is an error and changes nothing.
func (p *ExistingPolicy) UnmarshalText(text []byte) error {
	return fromText("policy on an existing run", existingNames[:], p, text)
}

// Replaces reports whether a start with the policy takes the ID of an existing run that
// has the status.
func (p ExistingPolicy) Replaces(s Status) bool {
	switch p {
	case ReplaceFailed:
		return s == Failed || s == Cancelled
	case ReplaceEnded:
		return s.Terminal()
	}
	return false
}

// Outcome is the result of a command.
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
	// Undecided: a foreign transaction that has not ended decides the outcome of this
	// command of a Batch. Nothing changed. Apply waits for such a transaction.
	Undecided Outcome = 6
	// Posted: what a turn sends to a run on another server is on its way, and arrives there once.
	// What comes of it is not known yet (see [Laned]).
	Posted Outcome = 7
)

var outcomeNames = [...]string{"", "applied", "exists", "duplicate", "not found", "ended", "undecided", "posted"}

// MarshalText returns the name. A number without a name is an error.
func (o Outcome) MarshalText() ([]byte, error) {
	return textOf("outcome of a command", outcomeNames[:], o)
}

// UnmarshalText is the inverse of MarshalText. A text that is no name is an error and changes nothing.
func (o *Outcome) UnmarshalText(text []byte) error {
	return fromText("outcome of a command", outcomeNames[:], o, text)
}

// Answer is the store's answer to one command.
type Answer struct {
	Outcome  Outcome
	Run      Run    // after the act, with Input, without Output; zero for NotFound
	Item     ItemNo // of the applied or the earlier item
	Repeated bool   // an earlier act, or this one before its repeat, sent Item, which may be consumed
	Claimed  bool   // the act claimed the run; in a repeat: the command has Claim and the run is claimed
}
