package store

import (
	"crypto/sha256"
	"fmt"
	"slices"
)

// RunNo is the dense number of a run inside one store. It is positive, grows
// with each start, and is never used twice.
type RunNo int64

// DefaultGroup is the group of every run that was started without a queue.
const DefaultGroup = "default"

// Shard is one slot of one group: the unit of ownership.
type Shard struct {
	Group string
	Slot  int
}

func (s Shard) String() string { return fmt.Sprintf("%s/%d", s.Group, s.Slot) }

// Status is the state of a run. The zero Status is invalid. The numbers are
// stored and never change meaning.
type Status uint8

const (
	// Queued is a run that has never run.
	Queued Status = 1
	// Running is a run that its owner executes, or should.
	Running Status = 2
	// Suspended is a run that waits and needs no node until it is woken.
	Suspended Status = 3
	// Succeeded is a run whose function returned without an error.
	Succeeded Status = 4
	// Failed is a run whose function returned an error or panicked.
	Failed Status = 5
	// Cancelled is a run that was cancelled or terminated.
	Cancelled Status = 6
	// Stalled is a run that needs a person; Run.Reason says why.
	Stalled Status = 7
)

var statusNames = [...]string{"", "queued", "running", "suspended", "succeeded", "failed", "cancelled", "stalled"}

// AllStatuses returns the valid statuses in the order of their numbers.
func AllStatuses() []Status {
	return []Status{Queued, Running, Suspended, Succeeded, Failed, Cancelled, Stalled}
}

// String returns the status as users see it: "queued", "running", …
func (s Status) String() string {
	if s.Valid() {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// Valid reports whether s is one of the statuses above.
func (s Status) Valid() bool { return s >= Queued && s <= Stalled }

// Terminal reports whether a run with this status has ended.
func (s Status) Terminal() bool { return s == Succeeded || s == Failed || s == Cancelled }

// ParseStatus returns the status with the given name.
func ParseStatus(name string) (Status, error) {
	if i := slices.Index(statusNames[1:], name); i >= 0 {
		return Status(i + 1), nil
	}
	return 0, fmt.Errorf("unknown status %q: expected one of %v", name, statusNames[1:])
}

// MarshalText and UnmarshalText make a Status its name in JSON.
func (s Status) MarshalText() ([]byte, error) {
	if !s.Valid() {
		return nil, fmt.Errorf("invalid status %d", uint8(s))
	}
	return []byte(s.String()), nil
}

// UnmarshalText is the inverse of MarshalText. A text that is no status is an error and changes
// nothing.
func (s *Status) UnmarshalText(text []byte) error {
	status, err := ParseStatus(string(text))
	if err == nil {
		*s = status
	}
	return err
}

var nextStatuses = [...][]Status{
	Queued:    {Running, Cancelled, Stalled},
	Running:   {Suspended, Succeeded, Failed, Cancelled, Stalled},
	Suspended: {Running, Cancelled, Stalled},
	Stalled:   {Running, Cancelled},
	Failed:    {Running},
	Succeeded: {Running},
	Cancelled: {Running},
}

// CanBecome reports whether a turn may change a run from s to t. A status may
// always stay what it is.
func (s Status) CanBecome(t Status) bool {
	return s.Valid() && t.Valid() && (s == t || slices.Contains(nextStatuses[s], t))
}

// Marks are facts about a run beside its status.
type Marks uint8

const (
	// Paused runs rest until they are resumed.
	Paused Marks = 1 << iota
	// Cancelling runs have accepted a cancel and are cleaning up.
	Cancelling
	// Undoing runs are executing compensations; their outcome is fixed.
	Undoing
	// Expiring runs are past their retention: their history is being deleted.
	Expiring
	// Held runs wait for a permit of a queue: for an ItemGrant (law 28), or in its line (law 31).
	Held
	// Failing runs were suspended while a step had failed FailingAfter times in a row or more. The runner
	// sets it, and takes it away when the run goes on to something else.
	Failing
	// Locked runs wait for a permit of a queue, and all permits are held by ancestors that only wait. It is stored
	// nowhere, and no List of a store finds it: an engine adds it, as the queue says.
	Locked
	// Admitted runs have the permit of the queue in whose line they waited (law 32).
	Admitted
)

// FailingAfter is how many attempts of a step fail until its run is marked as Failing.
const FailingAfter = 5

// Seed is the randomness of a run, drawn at its start and at each continue-as-new. A run
// derives its identities and random numbers from it, and a repeated Start is recognised
// by it.
type Seed [16]byte

// Origin identifies a start.
type Origin struct {
	Workflow string
	Seed     Seed
	Input    [sha256.Size]byte // SHA-256
}

// Origin returns how the run began. It needs the run's Input.
func (r *Run) Origin() Origin {
	if r.Incarnation > 0 {
		return r.First
	}
	return Origin{Workflow: r.Workflow, Seed: r.Seed, Input: sha256.Sum256(r.Input)}
}

// FirstSeed returns the seed that the run was started with.
func (r *Run) FirstSeed() Seed {
	if r.Incarnation > 0 {
		return r.First.Seed
	}
	return r.Seed
}

// Run is a run without its history.
type Run struct {
	No       RunNo
	ID       string
	Shard    Shard
	Workflow string

	Status      Status
	Marks       Marks
	Claimed     bool // by the owner of the shard
	Incarnation int
	Generation  int
	Seed        Seed
	Random      Seed   // of a forked run: the randomness of its original; zero: Seed
	Build       string // latest build that committed to it; "": none
	Parent      RunNo  // 0: none
	ParentLoc   string // where the parent awaits it

	// First is how a run began that has continued as new; otherwise it is zero.
	First Origin
	Began Time // when this incarnation began; 0 in the first one

	Created Time
	Started Time // first claim; 0: never ran
	Ended   Time // 0: live
	WakeAt  Time // 0: none
	// Expires is when an ended run with a retention of its own (Update.Keep) may be deleted;
	// 0: when a rule says so; Never.
	Expires Time

	// Suspicion that the run kills its process. A shard whose owner did not end cleanly
	// raises Suspect of the runs that were claimed, from the second time on only of those
	// that are Alone: executed while other suspects wait. Strikes counts how often a run was
	// Alone at such an end, in a row. A turn with an Update clears all three, unless the
	// update says Isolate or EndIsolation.
	Suspect int
	Strikes int
	Alone   bool

	Tags    []Pair // sorted by key
	Headers []byte // as given to Start
	Queue   []byte // its place in a queue; opaque to the store; nil: in none

	Input  []byte // as given to Start, or to the last continue-as-new
	Output []byte // result of a succeeded run, failure record of a failed one
	Reason string // why it is stalled or cancelled
	Waits  []byte // the waits of a suspended run; opaque to the store

	// InputSize and OutputSize are the lengths of Input and Output, which a
	// listing leaves out.
	InputSize  int
	OutputSize int

	// Damage says what of the run's row cannot be read; "": nothing. The rest is as it is
	// stored. Such a run is listed and claimed like any other, and its owner stalls it.
	Damage string
}
