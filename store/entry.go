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
	KindLoop    Kind = 9  // at a loop's location how much is pruned; at an iteration's its first state
	KindChild   Kind = 10 // a run that this one has started
	KindRun     Kind = 11 // the end of any run that the code awaits
	KindVersion Kind = 12 // the version of a change that the run takes
	KindShown   Kind = 13 // marks what the run showed before its first completion as committed
	KindEntity  Kind = 14 // state of an entity
	KindEvent   Kind = 15 // a wait for an event of a topic
	KindPublish Kind = 16 // an event that the code publishes
	KindSend    Kind = 17 // a message, an update or a resolution that the code sends to another run
	// KindSagaUndo is a compensation that a saga of the code executes; KindUndo is one at
	// the end of the run.
	KindSagaUndo Kind = 18
)

var kindNames = [...]string{
	"", "step", "sleep", "receive", "promise", "timer", "cancel", "wait", "undo", "loop", "child", "run", "version",
	"shown", "record", "event", "publish", "send", "saga undo",
}

// Undoes reports whether it is a compensation.
func (k Kind) Undoes() bool { return k == KindUndo || k == KindSagaUndo }

// String returns the kind as users see it: "step", "sleep", …
func (k Kind) String() string {
	if k > 0 && int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// MarshalText returns the name. A number without a name is an error.
func (k Kind) MarshalText() ([]byte, error) { return textOf("kind of an entry", kindNames[:], k) }

// UnmarshalText is the inverse of MarshalText. A text that is no name is an error and changes nothing.
func (k *Kind) UnmarshalText(text []byte) error {
	return fromText("kind of an entry", kindNames[:], k, text)
}

// EntryState is the state of an entry. The numbers are stored.
type EntryState uint8

const (
	// Open is an operation that began and has not ended: a failed attempt before the
	// next one, a registered wait, a sleep.
	Open EntryState = 1
	// Done is an operation that ended with a value.
	Done EntryState = 2
	// FailedEntry is an operation that ended with a failure.
	FailedEntry EntryState = 3
	// Withdrawn is an operation that began and then lost a race or was cancelled. It has
	// no completion number; a replay treats it like Open, or as if it was not there if it only says that the body of a
	// step was executed.
	Withdrawn EntryState = 4
)

var stateNames = [...]string{"", "open", "done", "failed", "withdrawn"}

// String returns the state as users see it: "open", "done", "failed" or
// "withdrawn".
func (s EntryState) String() string {
	if s > 0 && int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// MarshalText returns the name. A number without a name is an error.
func (s EntryState) MarshalText() ([]byte, error) {
	return textOf("state of an entry", stateNames[:], s)
}

// UnmarshalText is the inverse of MarshalText. A text that is no name is an error and changes nothing.
func (s *EntryState) UnmarshalText(text []byte) error {
	return fromText("state of an entry", stateNames[:], s, text)
}

// Entry is the stored record of one operation. Its key is the run, the run's
// incarnation and Loc.
type Entry struct {
	Loc   string // encoded location; not empty; its byte order is the order of locations
	Kind  Kind
	State EntryState
	Seq   int64 // completion number, from 1; 0: not handed over
	Born  int64 // last completion number handed over before the call
	At    Time  // the run's time at the hand-over; 0: not handed over
	// Wake is an open entry's deadline or next attempt. Of a completed wait it is when what it waited for had
	// come, if that was before the hand-over; of a step that has succeeded, since when its last attempt had waited before
	// it began. 0: none.
	Wake    Time
	Attempt int  // attempts on record
	Owes    bool // a step with a compensation, which is owed once the step is Done
	// Generation is the run's when the code first requested the operation. Its keys and
	// tokens are derived from it.
	Generation int
	Started    Time
	Ended      Time
	Value      []byte // nil: no value
	// Size is the length of the value. If Value is nil and Size is positive, the value was
	// left out because it is large; History with Values reads it.
	Size int
}

// LargeValue is the length from which Load leaves an entry's value out.
const LargeValue = 4<<10 + 1
