package store

import "fmt"

// Kind says which operation an entry records. The numbers are stored and never
// change meaning; a store treats them as opaque.
type Kind uint8

const (
	KindStep    Kind = 1
	KindSleep   Kind = 2
	KindReceive Kind = 3
	KindPromise Kind = 4
	KindTimer   Kind = 5  // the timer of a Select
	KindCancel  Kind = 6  // the cancel of the whole run
	KindWait    Kind = 7  // a combined wait
	KindUndo    Kind = 8  // a compensation of a completed step
	KindLoop    Kind = 9  // of a loop: at its location what it has pruned, at an iteration's the state that this begins with
	KindChild   Kind = 10 // a run that this one has started
	KindRun     Kind = 11 // any run whose end is awaited
	KindVersion Kind = 12 // which version of a change the run takes
	KindShown   Kind = 13 // that what the run says before its first completion is committed
	KindRecord  Kind = 14 // what stands in a record
	KindEvent   Kind = 15 // a wait for an event of a topic
	KindPublish Kind = 16 // an event that the code has published
)

var kindNames = [...]string{"", "step", "sleep", "receive", "promise", "timer", "cancel", "wait", "undo", "loop", "child", "run", "version", "shown", "record", "event", "publish"}

// String returns the kind as users see it: "step", "sleep", …
func (k Kind) String() string {
	if k > 0 && int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// EntryState is the state of an entry. The numbers are stored.
type EntryState uint8

const (
	// Open is an operation that has begun and not ended: a failed attempt with
	// another to come, a registered wait, a sleep.
	Open EntryState = 1
	// Done is an operation that ended with a value.
	Done EntryState = 2
	// FailedEntry is an operation that ended with a failure.
	FailedEntry EntryState = 3
	// Withdrawn is an operation that had begun and lost or was cancelled. It
	// has no completion number, and a replay treats it like Open.
	Withdrawn EntryState = 4
)

// String returns the state as users see it: "open", "done", "failed" or
// "withdrawn".
func (s EntryState) String() string {
	switch s {
	case Open:
		return "open"
	case Done:
		return "done"
	case FailedEntry:
		return "failed"
	case Withdrawn:
		return "withdrawn"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Entry is the stored record of one operation. Its key is the run, the run's
// incarnation and Loc.
type Entry struct {
	Loc     string // encoded location; not empty; its byte order is the order of locations
	Kind    Kind
	State   EntryState
	Seq     int64 // completion number, from 1; 0: not handed over
	Born    int64 // last completion number handed over before the call
	At      Time  // the run's time at the hand-over; 0: not handed over
	Wake    Time  // an open entry's deadline or next attempt; 0: none
	Attempt int   // attempts on record
	Owes    bool  // a step that carries a compensation, which is owed once it is Done
	// Generation is the run's when the operation was asked for: what it has handed
	// out (keys, tokens) is derived from it.
	Generation int
	Started    Time
	Ended      Time
	Value      []byte // nil: no value
	// Size is the length of the value. Where Value is nil and Size positive the
	// value was left out because it is large; History with Values fetches it.
	Size int
}

// LargeValue is the length from which on Load leaves an entry's value out.
const LargeValue = 4<<10 + 1
