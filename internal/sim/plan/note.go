package plan

import "time"

// Note is what a machine says of what it does. The world has them in their true order.
type Note struct {
	Kind      string   `json:"k"`
	Run       string   `json:"r,omitempty"`
	Op        string   `json:"o,omitempty"` // with its iterations, as in Line
	Attempt   int      `json:"a,omitempty"`
	Key       string   `json:"y,omitempty"` // of idempotency
	Exec      string   `json:"x,omitempty"` // this execution of a body
	Node      string   `json:"n,omitempty"`
	Value     string   `json:"v,omitempty"`
	Err       string   `json:"e,omitempty"`
	Act       int      `json:"t,omitempty"`
	Kills     int      `json:"d,omitempty"` // the node is to die here, if that happened less often
	Queue     string   `json:"q,omitempty"` // whose permit a body has, with the key PermitKey
	PermitKey string   `json:"p,omitempty"`
	Units     int      `json:"u,omitempty"` // of the queue's rate that the body takes
	Items     []int64  `json:"i,omitempty"` // numbers of dead letters
	Planned   *Planned `json:"s,omitempty"`
	Texts     []string `json:"w,omitempty"`
	Dump      *Dump    `json:"dump,omitempty"`
}

// Kinds of notes.
const (
	BodyBegins = "begins"
	BodyEnds   = "ends"
	Due        = "due"   // a wait is over because its time is: Value, in microseconds since 1970
	BodyFreed  = "freed" // its context has ended: what it does from then on it does without a permit
	UndoBegins = "undo begins"
	UndoEnds   = "undo ends"
	Token      = "token"  // Value: of a promise
	Called     = "called" // an act begins
	Done       = "done"   // an act has succeeded; Value: its answer
	Refused    = "refused"
	Unknown    = "unknown"  // an act was given up without an answer
	Found      = "found"    // a run at the end: Dump
	Stalled    = "stalled"  // a run, found after all faults; Value: the cause
	Letters    = "letters"  // Items: all dead letters at the end
	Executes   = "executes" // the code of a run begins, or begins again
	Decided    = "decided"  // Planned: of the schedule Op, at the end
	Asks       = "asks"     // a worker asks for tasks, in the request Exec
	Leased     = "leased"   // it has got one, as the execution Exec by the lease Key, in the request Value
	Answers    = "answers"  // it sends what its execution has given; Err: a failure
	Accepted   = "accepted" // its answer counts
	NotWanted  = "not wanted"
	Kept       = "kept"    // Texts: the events that the topic Op has at the end
	Settled    = "settled" // nothing lives any more
	Stuck      = "stuck"   // Value: what still lives
)

// Dump is all that the store has of a run at the end.
type Dump struct {
	ID      string              `json:"id"`
	No      int64               `json:"no"`
	Status  string              `json:"status"`
	Reason  string              `json:"reason,omitempty"`
	Lines   []string            `json:"lines,omitempty"` // its result
	Error   string              `json:"error,omitempty"`
	Parent  string              `json:"parent,omitempty"`
	Inbox   []string            `json:"inbox,omitempty"`   // values of messages that nobody received
	Items   []int64             `json:"items,omitempty"`   // numbers of all that is in its inbox
	Entries []Entry             `json:"entries,omitempty"` // of its last incarnation
	Acts    []string            `json:"acts,omitempty"`
	Values  map[string]string   `json:"values,omitempty"`
	Streams map[string][]string `json:"streams,omitempty"`
}

// Entry is an operation in a history.
type Entry struct {
	At     string `json:"at"`
	Kind   string `json:"k"`
	State  string `json:"s"`
	Order  int64  `json:"o,omitempty"`
	Tries  int    `json:"t,omitempty"`
	Value  string `json:"v,omitempty"`
	Owes   bool   `json:"w,omitempty"`
	Undone bool   `json:"u,omitempty"`
}

// Planned is what a schedule has decided.
type Planned struct {
	Past             []Decision `json:"past"`
	Started, Skipped int64
	Buffered         int64 `json:"buffered,omitempty"` // the instant that waits; 0: none
	Running          []string
}

// Decision is what became of an instant, or of several in a row. Times are in microseconds since
// 1970.
type Decision struct {
	From, To, Count int64
	Run             string `json:"run,omitempty"`
	Reason          string `json:"reason,omitempty"`
}

// Line is a line of a result: what an operation gave.
func Line(op, value string) string { return op + "=" + value }

// Values of lines.
const (
	TimedOut = "timed out"
	Early    = "early" // a sleep that was too short
	Woke     = "woke"
)

// Input is the input of a program's run.
type Input struct {
	Program Program  `json:"p"`
	Prefix  string   `json:"f,omitempty"`
	Lines   []string `json:"l,omitempty"` // of the former incarnations
	From    int      `json:"from,omitempty"`
	// Hands are promises that the run resolves at its end.
	Hands []Hands `json:"hands,omitempty"`
}

// Hands is a promise that another run than its own resolves with Value, or rejects if that is empty.
type Hands struct{ Token, Value string }

// Patience is how long a program waits for what may never come.
const Patience = 20 * time.Second
