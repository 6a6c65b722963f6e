package store

// Batch is a group commit: turns of runs in shards that one node owns, and
// commands, in one atomic durable act.
type Batch struct {
	Node string
	Boot string
	// No numbers the batches of a node's boot, growing from 1. A batch that was
	// definitely not applied may be changed and sent again under its number; one
	// whose outcome is unknown must be repeated as it was. A number below the
	// last one applied is ErrInvalid.
	No     int64
	Leases []Lease // of every shard that a turn or an adopting command touches
	Turns  []*Turn // at most one per run
	// Commands are applied after the turns, in order.
	Commands []Command
}

// Turn is everything that a run does between being woken and having nothing
// more to do. There is no other way to change a run.
type Turn struct {
	Run         RunNo
	Shard       Shard
	Incarnation int
	Prune       []Span  // of the run's history, deleted before anything is written (law 13)
	Rewrites    []Entry // in place of entries that are there, final ones too (law 19)
	Entries     []Entry
	Insert      bool // a hint: so far as who writes it knows, no entry stands at the location of any of Entries
	Seen        []ItemNo
	Consumed    []Consumption
	Returned    []Item        // consumed items that are in the inbox again (law 20)
	Answers     []Consumption // to updates that are consumed and have no answer
	Values      []Setting     // at most one of each name
	Rewound     bool          // every stream of the run gets a mark, before Appends
	Appends     []Append      // in this order
	Tags        []Pair        // to be set, no two of one key; an empty value removes
	Dead        []ItemNo      // become dead letters, because nobody will take them; all are letters
	Update      *Update       // nil: the run's row is not touched
	Audit       []Audit       // acts of operators; the store sets No and Time (law 21)
	Sends       []Command     // to other runs
}

// Sent returns the lists of commands that a turn with the verdict has sent.
func (t *Turn) Sent(v Verdict) [][]Command {
	switch {
	case v == Committed && t.Update != nil:
		return [][]Command{t.Sends, t.Update.Sends}
	case v == Committed, v == StillReady:
		return [][]Command{t.Sends}
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

// Update changes a run's row. Every field is written as it stands, except that
// an earlier Build, nil Output and zero Generation leave the former value, and nil
// Waits clears it.
type Update struct {
	Status Status
	Marks  Marks
	WakeAt Time // of a suspended run, or of one that is queued again; 0: none
	// Generation raises the run's; the turn is refused if it is not higher.
	Generation   int
	Reason       string
	Build        string // raises the run's (law 25)
	Isolate      bool   // execute it alone; keeps Suspect and Strikes, which are else cleared
	EndIsolation bool   // its time alone is over: keeps Suspect and Strikes, clears Alone
	Output       []byte
	Waits        []byte
	Queue        []byte    // how it stands in a queue from now on; nil: as before
	Sends        []Command // to other runs, after those of the turn, unless the turn is StillReady
	// Discard says, of an update that ends the run, that what its inbox still
	// holds is discarded instead of kept as dead letters.
	Discard bool
	// Unclaim gives a run that is Running from now on, and not Paused, back: it is ready
	// for whoever can load it.
	Unclaim bool
	// Continue makes the run continue as new. Status must be Running, and be it
	// already.
	Continue *Continuation
}

// Continuation is the next incarnation of a run (law 22).
type Continuation struct {
	Workflow string
	Input    []byte // nil: no value
	Seed     Seed
	At       Time // the run's time; the next incarnation begins at that of the act, and not earlier than this
	// First is how the run began, of one that continues for the first time and
	// whose stored Input is not what it was given; zero: the store knows.
	First Origin
}

// Verdict is the store's answer to a turn.
type Verdict uint8

const (
	// Committed: all of the turn stands.
	Committed Verdict = 1
	// StillReady: the turn stands, except that the run was neither suspended nor
	// ended, and its undoing has not begun, because of what is unexamined in its
	// inbox (law 5): it stays claimed and in its status, and of the Update only
	// Build and the end of suspicion took effect.
	StillReady Verdict = 2
	// Fenced: the lease's epoch is not current. Nothing of the turn stands.
	Fenced Verdict = 3
	// Refused: the turn breaks a law; Reason says which. Nothing of it stands.
	Refused Verdict = 4
	// Busy: a transaction that somebody else has begun, and not ended, decides what
	// becomes of the turn. Nothing of it stands; it may be written in a later batch.
	Busy Verdict = 5
)

func (v Verdict) String() string {
	switch v {
	case Committed:
		return "committed"
	case StillReady:
		return "still ready"
	case Fenced:
		return "fenced"
	case Refused:
		return "refused"
	case Busy:
		return "busy"
	}
	return "no verdict"
}

// TurnResult is the answer to one turn of a batch.
type TurnResult struct {
	Verdict Verdict
	Reason  string // of Refused
	// Sends are the answers to the sends that were carried out: those of the turn,
	// then those of its update. A store that does not know them yet leaves them out, and
	// has not adopted the runs that they would be about.
	Sends []Answer
}

// BatchResult holds the answers to a batch, in its order.
type BatchResult struct {
	Turns    []TurnResult
	Commands []Answer
	Now      Time // the store's time
}
