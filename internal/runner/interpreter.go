package runner

import (
	"iter"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/attempts"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/runs"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/runner/sends"
	"github.com/stet-run/stet/internal/runner/topics"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// Config is what an Interpreter is made from.
type Config struct {
	// Run, Entries and Items are a snapshot: the run, the history of its
	// incarnation in the order of locations, and what its inbox holds. The
	// runner keeps them and does not change them.
	Run     store.Run
	Entries []store.Entry
	Items   []store.Item
	// First says that the run was never executed before, by any process. Otherwise what
	// the code requests and the history does not have may have begun.
	First bool
	// Code is the workflow's function. It returns the encoded result, or the
	// failure with which the run ends.
	Code func(*Branch) ([]byte, *stored.Failure)
	// Fetch returns the value of an entry that the snapshot left out. It is
	// called on the run's goroutine, in replay and for undoing. An error breaks
	// the activation, not the run.
	Fetch func(loc string) ([]byte, error)
	// FetchItem returns the value of a message or update that was left out. It is called on
	// the run's goroutine when that is received; an error breaks the activation. nil: none
	// was left out.
	FetchItem func(it *store.Item) ([]byte, error)
	// Knows reports whether any node has ever registered a workflow. It is called
	// on the run's goroutine; an error breaks the activation. nil: all are known.
	Knows func(workflow string) (bool, error)
	// Look calls a function that reads the store. It is called on the run's goroutine; an
	// error breaks the activation. nil: nothing is looked for.
	Look   sends.Look
	Limits Limits
	// LongPause is as in journal.Config.
	LongPause time.Duration

	// CancelAt is when the run is cancelled because it takes too long, with
	// CancelReason; 0: never. That is MaxRun after its begin.
	CancelAt     store.Time
	CancelReason string
	MaxRun       time.Duration
	// TakenUp returns when an operator has last made the run go on, or 0: CancelAt and
	// MaxSuspended count from then, so that a repair does not cancel it. It is called on
	// the run's goroutine before the run is cancelled for one of them; an error breaks the
	// activation. nil: nobody has.
	TakenUp func() (store.Time, error)
	// UndoFailed and UndoCancelled say that a run that fails, or is cancelled, is
	// undone without a request of its code.
	UndoFailed, UndoCancelled bool
	// StallFailed says that a run that fails waits for a person instead of ending,
	// unless its code asks for it to be undone.
	StallFailed bool
	// FailBugs says that a run fails with a fault of its code, instead of waiting for a
	// person with all that it has.
	FailBugs bool
	// PauseAfter is after how many failed attempts in a row of a step, or of a
	// compensation, the run is paused, and after as many again; 0: never.
	PauseAfter int

	// MaxSuspended is how long the run may wait without a completion before it
	// is cancelled; 0: for ever.
	MaxSuspended time.Duration

	// NewKey returns a key that was never returned before, by whomever: of a wait
	// at a topic. nil: it is derived, which does for a run that is not committed.
	NewKey func() string
}

// Limits bound what one run may hold. Zero fields mean the defaults.
type Limits = journal.Limits

// Interpreter is one activation of a run. Its methods are for one driver and are not
// safe for concurrent use; they return when the code of every branch is blocked.
type Interpreter struct {
	cfg   Config
	sched *sched.Scheduler
	j     *journal.Journal
	root  *Branch // of the workflow's function

	loops    loops
	sends    *sends.Sends
	mail     receives
	promises promises
	updates  updates
	steps    *attempts.Steps
	runs     *runs.Runs
	topics   *topics.Topics
	shows    showing
	watches  []store.Item // of this run's end

	policies policies
	pause    *store.Item // asks for the run to be paused; nil: nothing does
	// terminate asks for the end of a run that is replayed first; nil: nothing does.
	terminate *store.Item
	alike     []store.Item // that ask for the same, and are answered with it
	ending    []store.Item // all of these, which the turn that ends the run answers; none: it ends otherwise
	cancel    cancel
	undo      undoing
	turns     turns

	renewal  *Renewal
	result   *Outcome // what the workflow's function has returned
	returned bool     // it has, with all its branches
	dropped  bool     // its code gets the baton no more
	over     *Outcome
	faults   faults
	broken   error
	notes    []Note
}

// turns is how far the turns of a run have come.
type turns struct {
	taken     int64 // the position of the journal up to which turns were taken
	durable   int64 // … and up to which they are committed
	underWay  bool
	suspended bool // the last turn that was taken suspends the run
	last      bool // … or ends or pauses it: no other follows
	// progressed: the last turn that was taken records more of an open step than that its body
	// executes.
	progressed bool
	failing    bool // the run's row has the mark Failing
}

// Outcome is how a run has ended, for now or for good.
type Outcome struct {
	Status store.Status // Succeeded, Failed, Cancelled or Stalled; Running with a Renewal
	Output []byte       // result, or failure record
	Reason string
	Stall  *journal.Stall // of a divergence, or a fault of the code
	At     location.Loc   // where a run stalls; "": nowhere, or Stall says it
	// Renewal is set when only this incarnation has ended.
	Renewal *Renewal
}

// Note is something that the log of the process should have.
type Note struct {
	Location location.Loc
	Text     string
	Err      error
}

// New returns a run that has not done anything yet.
func New(cfg Config) *Interpreter {
	r := &Interpreter{
		cfg:     cfg,
		updates: updates{unanswered: map[store.ItemNo]struct{}{}},
		shows:   showing{tags: cfg.Run.Tags},
	}
	r.turns.failing = cfg.Run.Marks&store.Failing != 0
	r.sched = sched.New(owner{r})
	r.sched.Name = cfg.Run.ID
	r.faults.r = r
	r.sched.OnPanic = r.faults.stopFor
	r.j = journal.New(journal.Config{
		Run: &r.cfg.Run, Entries: cfg.Entries, Fetch: cfg.Fetch, Limits: cfg.Limits, NewKey: cfg.NewKey,
		Owner: owner{r}, Scheduler: r.sched, LongPause: cfg.LongPause,
	})
	r.promises = promises{j: r.j, made: map[string]*promiseOp{}, resolved: map[string]store.Item{}}
	r.runs = runs.New(r.j, cfg.Knows, cfg.Look, owner{r}.Owe)
	var err error
	if r.undo, err = newUndoing(&r.cfg, r.j); err != nil {
		r.damaged("", err)
	}
	r.topics = topics.New(r.j)
	r.sends = sends.New(r.j, cfg.Look)
	r.undo.open = func() []location.Loc { return append(r.steps.Owing(r.j.Pending()), r.runs.Owing()...) }
	r.steps = attempts.New(r.j, owner{r}, cfg.PauseAfter, cfg.First)
	r.Deliver(cfg.Items...)
	r.cfg.Items = nil // items that were not received are in mailboxes now
	r.root = r.begin(func(b *Branch) (any, error) {
		output, failure := cfg.Code(b)
		r.end(output, failure)
		return nil, nil
	})
	return r
}

// Advance lets the run go as far as it can. now is a lower bound of the store's
// time; inboxAt is a store time at or after which the inbox was read completely
// (and delivered). Neither may go back. A suspended run stays where it is until
// Resumed or StillReady is called.
func (r *Interpreter) Advance(now, inboxAt store.Time) {
	defer r.faults.guard()
	r.j.Advance(now, inboxAt)
	r.j.Items.Forget(now, r.j.InboxAt())
	if r.turns.suspended {
		return
	}
	if r.j.Live() {
		journal.Checkpoint(r.j)
	}
	r.sched.Run()
	if r.broken != nil && r.terminate != nil { // what it cannot read is not listed
		r.broken = nil
		r.terminated()
	}
}

// Terminate ends the run at once, in the next turn. One that was executed before, and does
// not replay yet, is replayed first: only that tells what may be owed.
func (r *Interpreter) Terminate(it store.Item) {
	if !r.j.Items.Know(it.No) {
		return
	}
	switch {
	case r.ending != nil:
		r.ending = append(r.ending, it)
		return
	case r.terminate != nil:
		r.alike = append(r.alike, it)
		return
	}
	r.terminate = &it
	if r.cfg.First || r.j.Live() || r.over != nil {
		r.terminated()
	}
}

// terminated ends the run as requested.
func (r *Interpreter) terminated() {
	it := r.terminate
	r.ending = append([]store.Item{*it}, r.alike...)
	r.terminate, r.alike = nil, nil
	if r.pause != nil {
		if r.pause.No != 0 {
			r.Answer(r.pause.No, verbs.No(verbs.Terminated))
		}
		r.pause = nil
	}
	if it := r.cancel.item; it != nil && it.Name != "" { // a parent waits for no answer
		r.Answer(it.No, verbs.No(verbs.Terminated))
	}
	r.cancel.item = nil
	reason := reasonOf("terminated", it.Value)
	owed := r.undo.effects.List(r.undo.open())
	r.over = &Outcome{Status: store.Cancelled, Reason: reason, Output: stored.CancelledOutput(reason, owed, nil)}
	r.cancel.handedOver = true
}

func reasonOf(word string, detail []byte) string {
	if len(detail) == 0 {
		return word
	}
	return word + ": " + string(detail)
}

// Resumed notes that the run was claimed again after its suspension.
func (r *Interpreter) Resumed() { r.turns.suspended = false }

// Over returns how the run has ended, or nil. It is the end only once its turn
// is committed.
func (r *Interpreter) Over() *Outcome { return r.over }

// Broken returns why this activation cannot go on, or nil. The run is not
// harmed: load it again.
func (r *Interpreter) Broken() error { return r.broken }

// Live reports whether the run has passed its recorded history.
func (r *Interpreter) Live() bool { return r.j.Live() }

// Replayed returns how many recorded completions were handed over.
func (r *Interpreter) Replayed() int { return r.j.Replayed() }

// Entries returns the number of entries of the incarnation.
func (r *Interpreter) Entries() int {
	entries, _ := r.j.Size()
	return entries
}

const (
	interpreterBytes = 6 << 10 // an interpreter of a run that has done nothing
	branchBytes      = 8 << 10 // a branch: its goroutine with a stack that has grown once, its scope, its wait
	messageBytes     = 400     // a message, without its texts and value
	effectBytes      = 200     // what is to be undone, without the value
)

// Bytes returns about how many bytes of memory the activation takes.
func (r *Interpreter) Bytes() int {
	messages, bytes := r.mail.Size()
	return interpreterBytes + branchBytes*r.sched.Alive() + r.j.Held() + messageBytes*(messages+len(r.watches)) + bytes +
		effectBytes*r.undo.effects.Len() + r.undo.effects.Held()
}

// Notes returns what the process should log, and forgets it.
func (r *Interpreter) Notes() []Note {
	notes := r.notes
	r.notes = nil
	return notes
}

// NextTimer returns the time at which Advance has something to do even if
// nothing arrives, or 0, as of a run that is about to be paused. needsInbox says that the inbox must have been read at
// that time or later.
func (r *Interpreter) NextTimer() (at store.Time, needsInbox bool) {
	if r.over != nil || r.pause != nil {
		return 0, false
	}
	if t, ok := r.j.Timers.First(); ok {
		at, needsInbox = t.At, t.Op.AgainstInbox()
	}
	if p := r.policies.at(r); p != 0 && (at == 0 || p < at) {
		at, needsInbox = p, false
	}
	return at, needsInbox
}

// Unwind ends the goroutines of all branches: deferred functions run. The run
// cannot be used afterwards, except for Over, Replayed, Entries and Notes.
func (r *Interpreter) Unwind() {
	r.sched.Unwind()
	r.root.Exit() // if it has ended and there was something to undo
}

// Bodies yields the step bodies that may start now, each once; Complete reports its end.
func (r *Interpreter) Bodies() iter.Seq[Body] {
	return r.steps.Bodies(r.turns.durable, r.over != nil || r.pause != nil)
}

// Cancels returns the IDs of bodies that were given out and are wanted no more.
func (r *Interpreter) Cancels() []int64 { return r.steps.Cancels() }

// Complete takes the end of an attempt. Only the current attempt's is accepted.
// The result is not changed any more.
func (r *Interpreter) Complete(id int64, attempt int, result *BodyResult) {
	r.steps.Complete(id, attempt, result)
}

// Heartbeat records what an attempt wants its successor to know, unless it is larger
// than a value may be. It reports whether the attempt is the current one.
func (r *Interpreter) Heartbeat(id int64, attempt int, detail []byte) bool {
	return r.steps.Heartbeat(id, attempt, detail)
}
