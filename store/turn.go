package store

import "slices"

// Batch is a group commit: turns of runs in shards that one node owns, and
// commands, in one atomic durable act.
type Batch struct {
	Node string
	Boot string
	// No numbers the batches of a node's boot, growing from 1. A batch that was certainly
	// not applied may be changed and sent again under its number. A batch with an unknown
	// outcome must be repeated unchanged. A number below the last one applied is
	// ErrInvalid.
	No int64
	// Last is the number of the boot's last batch whose result its sender has; 0: it knows
	// of none. A store that does not have that batch has gone back: ErrWentBack (law 29).
	Last   int64
	Leases []Lease // of every shard that a turn, or a command with Claim, touches
	Turns  []*Turn // at most one per run
	// Commands are applied after the turns, in order.
	Commands []Command
}

// Turn is everything that a run does from its wake-up until it has nothing more to do.
// There is no other way to change a run.
type Turn struct {
	Run         RunNo
	Shard       Shard
	Incarnation int
	Prune       []Span  // of the run's history, deleted before anything is written (law 13)
	Rewrites    []Entry // replace existing entries, final ones too (law 19)
	Entries     []Entry
	Insert      bool // a hint: as far as the writer knows, no entry exists at a location of Entries
	Seen        []ItemNo
	Consumed    []Consumption
	Returned    []Item        // consumed items that are in the inbox again (law 20)
	Answers     []Consumption // to updates that are consumed and have no answer
	Values      []Setting     // at most one of each name
	Rewound     bool          // every stream of the run gets a mark, before Appends
	Appends     []Append      // in this order
	Tags        []Pair        // to be set, one for each key; an empty value removes the tag
	Dead        []ItemNo      // become dead letters; all can be dead (ItemKind.CanBeDead)
	Refused     []Refusal     // become dead letters with a reason (law 23)
	Update      *Update       // nil: the run's row is not touched
	Audit       []Audit       // acts of operators; the store sets No and Time (law 21)
	Sends       []Command     // to other runs
	Hints       []Shard       // whose owners are notified after the commit, besides those that the store finds itself
}

// Sent returns the lists of commands that a turn with verdict v sends.
func (t *Turn) Sent(v Verdict) [][]Command {
	switch {
	case v == Committed && t.Update != nil:
		return [][]Command{t.Sends, t.Update.Sends}
	case v == Committed, v == StillReady:
		return [][]Command{t.Sends}
	}
	return nil
}

// ConsumedBy returns what a turn with verdict v consumes. The caller must not change it.
func (t *Turn) ConsumedBy(v Verdict) []Consumption {
	switch {
	case v == Committed && t.Update != nil && len(t.Update.Consumed) > 0:
		return slices.Concat(t.Consumed, t.Update.Consumed)
	case v == Committed, v == StillReady:
		return t.Consumed
	}
	return nil
}

// Span is a range of encoded locations: from From, before To.
type Span struct{ From, To string }

// Contains reports whether a location is in the span.
func (s Span) Contains(loc string) bool { return loc >= s.From && loc < s.To }

// Consumption marks an item as consumed. In Answers it is the answer to an
// update, which may have been consumed by an earlier turn.
type Consumption struct {
	Item    ItemNo
	Verdict []byte // answer to a verb or an update; nil for others
}

// Refusal makes a dead letter of an item that the run's code has no use for.
type Refusal struct {
	Item   ItemNo
	Reason []byte // becomes the item's Verdict; not empty
}

// Update changes a run's row. Every field is written as it stands, except that an earlier
// Build, a nil Output and a zero Generation leave the former value. A nil Waits clears it.
type Update struct {
	Status Status
	Marks  Marks
	WakeAt Time // of a suspended run, or of one that is queued again; 0: none
	// Generation raises the run's. The turn is refused if it is not higher.
	Generation int
	Reason     string
	Build      string // raises the run's (law 25)
	// Isolate and EndIsolation say what becomes of the suspicion (Run.Suspect):
	//
	//   - neither: it ends; Suspect, Strikes and Alone are cleared.
	//   - Isolate: the run is executed alone. Sets Alone.
	//   - EndIsolation: it has been for its time. Clears Alone and Strikes.
	//   - both: it is executed with some of the other suspects. Sets Alone, clears Strikes.
	Isolate      bool
	EndIsolation bool
	Output       []byte
	Waits        []byte
	Queue        []byte    // its new place in a queue; nil: as before
	Sends        []Command // to other runs, after those of the turn, unless the turn is StillReady
	// Consumed are items that are consumed with the update: verbs that it carries out. If the turn
	// is StillReady they stay as they were, without an answer, and Audit is not noted (law 5).
	// None is among those of the turn.
	Consumed []Consumption
	Audit    []Audit // after those of the turn
	// Discard says, in an update that ends the run, that the items left in its inbox are
	// discarded instead of becoming dead letters.
	Discard bool
	// DiscardNames are names of messages that are discarded so when the others of the inbox
	// are not. There are at most MaxDiscardNames.
	DiscardNames []string
	// Keep is how long the run is kept after its end, in an update that ends it. 0: as a rule
	// of Sweep says; KeepForever: until it is deleted by name.
	Keep Delay
	// Unclaim gives the run back: it is Running, not Paused, and ready for any node that
	// can load it.
	Unclaim bool
	// Yield gives back the permit of a queue in whose line the run has waited: it is Admitted no more (law 33).
	Yield bool
	// AnyBuild forgets the run's build, before Build is written (law 25).
	AnyBuild bool
	// Continue makes the run continue as new. Status must be Running, before the turn and
	// in it.
	Continue *Continuation
}

// Continuation is the next incarnation of a run (law 22).
type Continuation struct {
	Workflow string
	Input    []byte // nil: no value
	Seed     Seed
	At       Time // the run's time; the incarnation begins at the later of this and the act's time
	// First is how the run began. It is set when a run continues for the first time and
	// its stored Input is not the one it was given; zero: the store knows.
	First Origin
}

// MarksOver returns the marks of the run after the update. Of its former marks only Admitted can stay (law 33).
func (u *Update) MarksOver(former Marks) Marks {
	if u.Yield || u.Status.Terminal() || u.Marks&Held != 0 {
		former = 0
	}
	return u.Marks&^Admitted | former&Admitted
}

// Verdict is the store's answer to a turn.
type Verdict uint8

const (
	// Committed: all of the turn stands.
	Committed Verdict = 1
	// StillReady: the turn stands, but an unexamined item kept it from suspending or ending
	// the run, or from beginning to undo it (law 5). The run stays claimed and in its
	// status; of the Update only Build and the end of suspicion took effect. What it would
	// have consumed has no answer yet.
	StillReady Verdict = 2
	// Fenced: the lease's epoch is not current. Nothing of the turn stands.
	Fenced Verdict = 3
	// Refused: the turn breaks a law; Reason says which. Nothing of it stands.
	Refused Verdict = 4
	// Busy: a foreign transaction that has not ended decides the outcome of the turn.
	// Nothing of it stands; it may be written in a later batch.
	Busy Verdict = 5
)

var verdictNames = [...]string{"", "committed", "still ready", "fenced", "refused", "busy"}

// String returns the verdict for logs: "committed", "still ready", …
func (v Verdict) String() string {
	if v > 0 && int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "no verdict"
}

// MarshalText returns the name. A number without a name is an error.
func (v Verdict) MarshalText() ([]byte, error) {
	return textOf("verdict on a turn", verdictNames[:], v)
}

// UnmarshalText is the inverse of MarshalText. A text that is no name is an error and changes nothing.
func (v *Verdict) UnmarshalText(text []byte) error {
	return fromText("verdict on a turn", verdictNames[:], v, text)
}

// TurnResult is the answer to one turn of a batch.
type TurnResult struct {
	Verdict Verdict
	Reason  string // of Refused
	// Sends are the answers to the sends that were carried out: those of the turn, then
	// those of its update. A store that does not know them yet leaves them out, and has
	// not claimed the runs that they would name.
	Sends []Answer
}

// BatchResult holds the answers to a batch, in its order.
type BatchResult struct {
	Turns    []TurnResult
	Commands []Answer
	Now      Time // the store's time
}
