// Package plan makes, from a seed, what happens in a simulated world: its nodes, the
// programs of its runs, what clients and operators do and when, and the faults.
package plan

import "time"

// Plan is what happens in one world.
type Plan struct {
	Seed     uint64   `json:"seed"`
	Features []string `json:"features"`       // what this seed has switched on
	Slots    int      `json:"slots"`          // of the store
	Disk     bool     `json:"disk,omitempty"` // the store is a file
	Nodes    []Node   `json:"nodes"`
	Queues   []Queue  `json:"queues,omitempty"`
	Runs     []Run    `json:"runs"`
	// Schedules are made by a client, which pauses them when the world is healed.
	Schedules []Schedule `json:"schedules,omitempty"`
	// Sealed: values are encrypted.
	Sealed bool `json:"sealed,omitempty"`
	// Apart: the store writes some turns apart from others, see store.Separator.
	Apart bool `json:"apart,omitempty"`
	// Sweep is how often nodes delete ended runs, as soon as can be. 0: none is deleted.
	Sweep  time.Duration `json:"sweep,omitempty"`
	Acts   []Act         `json:"acts,omitempty"`
	Faults []Fault       `json:"faults,omitempty"`
	// Workers execute tasks, in the client's process and in those of nodes.
	Workers bool `json:"workers,omitempty"`
	// Begin is what the clocks show at first. Zero: any time of day.
	Begin time.Time `json:"begin,omitzero"`
	// Scene is what its Cast, which are runs, plays. "": none.
	Scene string   `json:"scene,omitempty"`
	Cast  []string `json:"cast,omitempty"`
	// Length is how long there are faults. After it every machine is healed, and what has
	// begun must end.
	Length time.Duration `json:"length"`
}

// Node is a process that executes runs.
type Node struct {
	Name           string        `json:"name"`
	Build          int           `json:"build"`
	Groups         []string      `json:"groups,omitempty"`
	LeaseTTL       time.Duration `json:"ttl"`
	Poll           time.Duration `json:"poll,omitempty"`
	MaxSteps       int           `json:"steps,omitempty"`
	MaxRuns        int           `json:"runs,omitempty"`
	MaxParkedBytes int           `json:"parkedBytes,omitempty"`
	ParkFor        time.Duration `json:"parkFor,omitempty"`
	// Replaces: no former process of its name lives when it begins.
	Replaces bool `json:"replaces,omitempty"`
	// Rate is that of its clocks, all its lives, when no fault sets it. 0: they are right.
	Rate float64 `json:"rate,omitempty"`
	// From is when it joins, and Until when it leaves for good. 0: at first, and never.
	From  time.Duration `json:"from,omitempty"`
	Until time.Duration `json:"until,omitempty"`
}

// Queue is a queue that a client makes at first.
type Queue struct {
	Name        string        `json:"name"`
	Concurrency int           `json:"concurrency,omitempty"`
	PerKey      int           `json:"perKey,omitempty"`
	Rate        int           `json:"rate,omitempty"`
	Per         time.Duration `json:"per,omitempty"`
	RatePerKey  int           `json:"ratePerKey,omitempty"`
	Group       string        `json:"group,omitempty"`
	Release     bool          `json:"release,omitempty"` // of the permits of runs that are suspended
}

// Schedule starts runs, again and again.
type Schedule struct {
	Name  string        `json:"name"`
	At    time.Duration `json:"at"` // when it is made
	Every time.Duration `json:"every"`
	// Cron, in Zone, is in place of Every, which is then the time between most instants.
	Cron    string        `json:"cron,omitempty"`
	Zone    string        `json:"zone,omitempty"`
	Offset  time.Duration `json:"offset,omitempty"`
	Overlap string        `json:"overlap,omitempty"`
	CatchUp time.Duration `json:"catchUp,omitempty"` // 0: however late
	Program Program       `json:"program"`
}

// Run is a run that a client starts.
type Run struct {
	ID      string        `json:"id"`
	At      time.Duration `json:"at"`
	After   time.Duration `json:"after,omitempty"`
	Queue   string        `json:"queue,omitempty"`
	Key     string        `json:"key,omitempty"`
	Undoes  bool          `json:"undoes,omitempty"` // a cancel undoes it
	MaxRun  time.Duration `json:"maxRun,omitempty"` // it is cancelled then; 0: never
	Program Program       `json:"program"`
	First   string        `json:"first,omitempty"` // a message that is sent with the start
	// With is the number of the act that starts several runs, all or none. 0: it is started alone.
	With int `json:"with,omitempty"`
	// Alone: there must be no run of its ID yet.
	Alone bool `json:"alone,omitempty"`
	// MaxWait: it is cancelled if nothing happens for so long; 0: never.
	MaxWait time.Duration `json:"maxWait,omitempty"`
}

// Program is the code of a run, or of a part of one.
type Program []Op

// Op is an operation of a program. Its name occurs once in its run.
type Op struct {
	Kind  string        `json:"k"`
	Name  string        `json:"n"`
	Body  *Body         `json:"b,omitempty"`
	Undo  *Body         `json:"u,omitempty"`
	Where string        `json:"v,omitempty"` // the queue whose permit the undo needs; "": none
	Wait  time.Duration `json:"w,omitempty"`
	Count int           `json:"c,omitempty"`
	Queue string        `json:"q,omitempty"`
	Key   string        `json:"y,omitempty"`
	To    string        `json:"t,omitempty"` // a run, a topic, a message, a stream
	Subs  []Program     `json:"s,omitempty"` // branches, or the one inside
	Cost  int           `json:"o,omitempty"` // of the permit; 0: 1
	Spent int           `json:"x,omitempty"` // in place of the cost; 0: the cost
	Fails bool          `json:"f,omitempty"` // the failure of the child fails the scope; it rejects the promise
	Leave bool          `json:"l,omitempty"` // the child goes on when its scope is over
}

// Body is the body of a step.
type Body struct {
	Takes  time.Duration `json:"takes,omitempty"`
	Fails  int           `json:"fails,omitempty"`  // that many attempts, at first
	Panics bool          `json:"panics,omitempty"` // and these by a panic
	Final  bool          `json:"final,omitempty"`  // in the end, for good
	Hangs  bool          `json:"hangs,omitempty"`  // the first attempt, until its time is over
	Beats  bool          `json:"beats,omitempty"`
	Deaf   bool          `json:"deaf,omitempty"`  // to the end of its context
	Kills  int           `json:"kills,omitempty"` // its node, the first executions
	Emits  int           `json:"emits,omitempty"` // items of a stream
}

// Kinds of operations.
const (
	Step     = "step"
	Sleep    = "sleep"
	All      = "all"
	Join     = "join"
	Any      = "any"
	Race     = "race"
	Loop     = "loop"
	Call     = "call"
	Detach   = "detach"
	Receive  = "receive"
	Promise  = "promise"
	Event    = "event"
	Publish  = "publish"
	Send     = "send"
	Update   = "update"
	Value    = "value"
	Stream   = "stream"
	Saga     = "saga"
	Try      = "try"
	Version  = "version"
	Continue = "continue"
	Fail     = "fail"
	Map      = "map"     // branches, Count at a time
	Settle   = "settled" // branches, as they end
	Select   = "select"  // a branch, a message, or a time
	Go       = "go"      // a child, what is done beside it, and its end unless Count is 0
	Await    = "await"   // the end of another run
	Task     = "task"    // a step whose body a worker executes
	Ask      = "ask"     // an update that code sends to another run, and its answer
	Hand     = "hand"    // a promise, and a child that resolves it
)

// Act is what a client or an operator does.
type Act struct {
	No    int           `json:"no"`
	At    time.Duration `json:"at"`
	Kind  string        `json:"k"`
	Run   string        `json:"r,omitempty"`
	Name  string        `json:"n,omitempty"` // of a message, an update, a topic, a queue, a step
	From  int           `json:"f,omitempty"` // its sender: acts of one sender are one after the other
	Count int           `json:"c,omitempty"`
	Keyed bool          `json:"y,omitempty"` // it has a key, and is repeated until it is certain
	Twice bool          `json:"w,omitempty"` // and once more after that, as one that has forgotten
	// Children: the pause, or the resume, is for the children of the run too.
	Children bool `json:"c2,omitempty"`
}

// Kinds of acts beside Send, Publish and Update.
const (
	Pause     = "pause"
	Resume    = "resume"
	Cancel    = "cancel"
	Terminate = "terminate"
	Retry     = "retry"
	Rewind    = "rewind"
	Fork      = "fork"
	Nudge     = "nudge"
	SetQueue  = "set queue"
	Restart   = "start again"
	Delete    = "delete"
	Edit      = "edit" // the result of a step
	PauseAll  = "pause schedule"
	ResumeAll = "resume schedule"
	Trigger   = "trigger"
	Replay    = "replay letter"  // one of the dead letters, to Run; "": to its own run
	Discard   = "discard letter" // one of them
)

// Fault is something that goes wrong, from At on, for Lasts.
type Fault struct {
	Kind   string        `json:"k"`
	At     time.Duration `json:"at"`
	Lasts  time.Duration `json:"lasts,omitempty"`
	Node   int           `json:"node"`             // its index in Nodes; -1: the client
	Share  float64       `json:"share,omitempty"`  // of what is hit
	Calls  int64         `json:"calls,omitempty"`  // how many calls of the outside later
	Period time.Duration `json:"period,omitempty"` // of a cut that comes and goes: one half of it, then not; 0: it stays
	Method string        `json:"method,omitempty"` // of the store, which is hit; "": all
}

// Kinds of faults.
const (
	Kill     = "kill"      // the node dies, and begins again after Lasts
	Stop     = "stop"      // the node is asked to stop, and begins again after Lasts
	Deploy   = "deploy"    // like Stop, with the next build
	Freeze   = "freeze"    // the node executes nothing
	Cut      = "cut"       // no message passes between node and store
	Mute     = "mute"      // requests arrive, no answer comes back
	Lose     = "lose"      // a share of requests is lost, the connection breaks
	Unheard  = "unheard"   // a share of answers is lost, the connection breaks
	Refuse   = "refuse"    // a share of requests is refused, and not carried out
	Slow     = "slow"      // messages take long
	Hints    = "hints"     // hints are lost
	Jump     = "jump"      // the node's clock of the day is set
	Drift    = "drift"     // the node's clocks go wrong
	Away     = "away"      // the store answers nothing, to anybody
	StoreLag = "storelag"  // the store's machine executes nothing
	PowerCut = "power cut" // of a store that is a file; it is there again after Lasts
	Full     = "full disk" // of a store that is a file
	Lies     = "lies"      // the disk of a store that is a file keeps nothing of what is synced
	Twin     = "twin"      // a node that is to replace others begins while its former process executes nothing
	Linger   = "linger"    // the end of the node's connections is not seen by the store
)
