package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/fifo"
	"github.com/stet-run/stet/internal/heap"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/runner/turnlog"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/internal/verbs"
	"github.com/stet-run/stet/store"
)

// Config is what a Run is made from.
type Config struct {
	// Run, Entries and Items are a snapshot: the run, the history of its
	// incarnation in the order of locations, and what its inbox holds. The
	// runner keeps them and does not change them.
	Run     store.Run
	Entries []store.Entry
	Items   []store.Item
	// Code is the workflow's function. It returns the encoded result, or the
	// failure with which the run ends.
	Code func(*Branch) ([]byte, *stored.Failure)
	// Fetch returns the value of an entry that the snapshot left out. It is
	// called on the run's goroutine, in replay and for undoing. An error breaks
	// the activation, not the run.
	Fetch func(loc string) ([]byte, error)
	// Knows reports whether any node has ever registered a workflow. It is called
	// on the run's goroutine; an error breaks the activation. nil: all are known.
	Knows  func(workflow string) (bool, error)
	Limits Limits

	// CancelAt is when the run is cancelled because it takes too long, with
	// CancelReason; 0: never.
	CancelAt     store.Time
	CancelReason string
	// UndoFailed and UndoCancelled say that a run that fails, or is cancelled, is
	// undone without being asked by its code.
	UndoFailed, UndoCancelled bool
	// StallFailed says that a run that fails waits for a person instead of ending,
	// unless its code asks for it to be undone.
	StallFailed bool
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
type Limits struct {
	Entries     int // per incarnation; default 100,000
	Bytes       int // of values per incarnation; default 64 MiB
	Value       int // bytes of one value; default 2 MiB
	TurnEntries int // a turn is cut after so many; default 1,000
	TurnBytes   int // default 4 MiB
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{{&l.Entries, 100_000}, {&l.Bytes, 64 << 20}, {&l.Value, 2 << 20}, {&l.TurnEntries, 1_000}, {&l.TurnBytes, 4 << 20}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return l
}

// shortWait is the time below which a sleep or retry delay neither suspends its
// run nor is written down: its deadline follows from what is recorded.
const shortWait = store.Time(time.Second / time.Microsecond)

// Run is one activation of a run. Its methods are for one driver and are not
// safe for concurrent use; they return when the code of every branch is blocked.
type Run struct {
	cfg    Config
	limits Limits

	now     store.Time // the run's time: that of the last hand-over
	bound   store.Time // lower bound of the store's time, as last told
	inboxAt store.Time // the inbox was read at this time or later
	seq     int64      // completions handed over

	sched *sched.Scheduler
	root  *Branch // of the workflow's function

	replay   replay
	recorded int64 // the last completion number of the history
	live     bool

	versions map[location.Loc]int // what Version has returned
	gone     map[string]*record   // accepted by Removed; set when the run goes live

	// Live operations by what they wait for.
	timers   heap.Min[timer]
	mail     map[string]*mailbox
	hotMail  []*mailbox // may have a match
	promises map[string]*op
	resolved map[string]store.Item  // unconsumed resolutions by location
	hot      []*op                  // awaited promises whose resolution is there
	arrived  fifo.Queue[arrival]    // ends of bodies
	bodies   map[int64]*op          // with a body waiting, running, or between attempts
	queue    fifo.Queue[*op]        // bodies that wait for the barrier
	entering fifo.Queue[*op]        // loops whose next state is to be handed over
	pruned   map[location.Loc]int64 // the oldest iteration of loops that keeps its history
	inFlight int                    // bodies queued or given out and not closed
	cancels  []int64
	known    map[store.ItemNo]struct{} // items that were delivered and may be again
	taking   []store.ItemNo            // items that the turn under way consumes
	done     []doneItems               // items whose consumption is durable

	// Other runs.
	others    map[string]*op         // children and awaited runs by what their ends are called by
	again     map[location.Loc]int64 // how often children were begun again, if they were
	ends      []store.Item           // delivered before the run was live
	hotOthers []*op                  // whose end is there
	watches   []store.Item           // of this run's end

	// Topics.
	registrations map[string]*registration // waits that stand, by key
	deliveries    []store.Item             // delivered before the run was live
	hotEvents     []*op                    // whose event is there
	heard         map[string]heard         // by topic

	// Permits of steps.
	tickets map[string]*ticket // that stand
	grants  []store.Item       // delivered before the run was live
	granted []*op              // whose permit has come

	unanswered map[store.ItemNo]struct{} // updates that were received
	late       []store.Consumption       // answers for when the run goes live
	tags       []store.Pair              // after what was set
	begun      bool                      // something was said before the first completion
	appended   bool                      // … to a stream

	pause      *store.Item // asks for the run to be paused; nil: nobody does
	troubled   []*op       // whose failures do
	cancelItem *store.Item // asked for and not handed over
	cancelling bool        // the cancel was handed over
	reason     string      // of the cancel
	refused    int

	undo     payment
	returned bool // the workflow's function, with all its branches
	dropped  bool // its code gets the baton no more

	log       turnlog.Log
	pos       int64 // barrier: hand-overs and failed attempts so far
	taken     int64 // of these, in turns that were taken
	durable   int64 // of these, in turns that are committed
	underWay  bool
	suspended bool // the last turn that was taken suspends the run
	closed    bool // … or ends it
	entries   int  // recorded and new
	bytes     int

	renewal *Renewal
	result  *Outcome // what the workflow's function has returned
	over    *Outcome
	broken  error
	notes   []Note
}

// Outcome is how a run has ended, for now or for good.
type Outcome struct {
	Status store.Status // Succeeded, Failed, Cancelled or Stalled; Running with a Renewal
	Output []byte       // result, or failure record
	Reason string
	Stall  *Stall // of a divergence
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
func New(cfg Config) *Run {
	r := &Run{
		cfg: cfg, limits: cfg.Limits.withDefaults(), now: max(cfg.Run.Started, cfg.Run.Began),
		mail: map[string]*mailbox{}, promises: map[string]*op{}, resolved: map[string]store.Item{},
		bodies: map[int64]*op{}, known: map[store.ItemNo]struct{}{}, pruned: map[location.Loc]int64{},
		others:     map[string]*op{},
		unanswered: map[store.ItemNo]struct{}{}, tags: cfg.Run.Tags,
	}
	r.sched = sched.New(owner{r})
	r.timers.Before = func(a, b timer) bool { return a.at < b.at || a.at == b.at && a.op.id < b.op.id }
	r.replay.init(cfg.Entries)
	if n := len(r.replay.numbered); n > 0 {
		r.recorded = r.replay.numbered[n-1].Seq
	}
	r.initUndo()
	r.initEvents()
	r.initPermits()
	r.entries = len(cfg.Entries)
	for i := range cfg.Entries {
		r.bytes += max(cfg.Entries[i].Size, len(cfg.Entries[i].Value))
	}
	r.Deliver(cfg.Items...)
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
func (r *Run) Advance(now, inboxAt store.Time) {
	r.bound, r.inboxAt = max(r.bound, now), max(r.inboxAt, inboxAt)
	r.forget(now)
	if r.suspended {
		return
	}
	r.sched.Run()
}

// Know notes that an item has been delivered. It reports false if it was noted
// before.
func (r *Run) Know(no store.ItemNo) bool {
	_, known := r.known[no]
	r.known[no] = struct{}{}
	return !known
}

// doneItems are items that no inbox that is read from a time on holds any more.
type doneItems struct {
	from store.Time // 0: not known yet; the present is not earlier
	nos  []store.ItemNo
}

// forget drops the numbers of items that cannot be delivered again: their consumption
// was durable at the time from, the inbox was read later, and what was read in between
// or before has been delivered by now. A run may receive messages for ever.
func (r *Run) forget(now store.Time) {
	for i := range r.done {
		if d := &r.done[i]; d.from == 0 {
			d.from = now
		}
	}
	for len(r.done) > 0 && r.done[0].from < r.inboxAt {
		for _, no := range r.done[0].nos {
			delete(r.known, no)
		}
		r.done = r.done[1:]
	}
}

// Deliver adds items to the inbox. Items that were delivered before are
// ignored, and so are verbs other than Cancel, which are not the runner's.
func (r *Run) Deliver(items ...store.Item) {
	for i := range items {
		it := &items[i]
		if it.Kind.Verb() && it.Kind != store.ItemCancel && it.Kind != store.ItemWatch || !r.Know(it.No) {
			continue
		}
		switch it.Kind {
		case store.ItemMessage:
			r.mailboxOf(it.Name).deliver(r, *it)
		case store.ItemUpdate:
			if it.State == store.Consumed {
				r.unanswered[it.No] = struct{}{}
				continue
			}
			r.mailboxOf(UpdateBox(it.Name)).deliver(r, *it)
		case store.ItemResolution:
			if it.Incarnation != r.cfg.Run.Incarnation || r.isPruned(location.Loc(it.Loc)) || it.Generation != r.madeIn(it.Loc) {
				r.log.DeadLetter(it.No) // nobody can await it any more
				continue
			}
			if _, twice := r.resolved[it.Loc]; twice {
				r.Answer(it.No, nil) // the first one stands
				continue
			}
			r.resolved[it.Loc] = *it
			if o := r.promises[it.Loc]; o != nil {
				r.heat(o)
			}
		case store.ItemEnd:
			r.deliverEnd(*it)
			continue
		case store.ItemDelivery:
			r.deliverEvent(*it)
			continue
		case store.ItemGrant:
			if permit.OfStep(it) {
				r.deliverGrant(*it)
				continue
			}
		case store.ItemWatch:
			r.watches = append(r.watches, *it)
		case store.ItemCancel:
			if !r.cancelItemCame(it) {
				continue
			}
		}
		r.log.See(it)
	}
}

// Watches returns the requests to be told of the run's end. They stay in its
// inbox.
func (r *Run) Watches() []store.Item { return r.watches }

// cancelItemCame looks at a request for a cancel. It reports whether the code is
// to see it; else it is answered or kept.
func (r *Run) cancelItemCame(it *store.Item) bool {
	switch {
	case it.Name == "" && (r.undo.begun || r.cancelling || r.replay.cancel != nil):
		// A parent cancels its child with the scope and at its own end, by one item,
		// which this run may have consumed in an earlier activation.
		r.log.See(it)
	case r.undo.begun:
		r.Answer(it.No, verbs.No(verbs.Undoing))
	case r.cancelItem != nil || r.cancelling || r.replay.cancel != nil:
		r.Answer(it.No, verbs.No(verbs.AlreadyCancelling))
	case r.undo.taken:
		r.undo.late = append(r.undo.late, *it)
	case r.undo.outcome != nil || r.over != nil && r.over.Status != store.Stalled:
		r.lateCancel(it)
	default:
		r.cancelItem = it
		return true
	}
	return false
}

// Terminate ends the run at once, in the next turn.
func (r *Run) Terminate(it store.Item) {
	if !r.Know(it.No) {
		return
	}
	r.Answer(it.No, verbs.Yes())
	r.audit(&it)
	if r.pause != nil {
		if r.pause.No != 0 {
			r.Answer(r.pause.No, verbs.No(verbs.Terminated))
		}
		r.pause = nil
	}
	reason := reasonOf("terminated", it.Value)
	r.over = &Outcome{Status: store.Cancelled, Reason: reason, Output: stored.CancelledOutput(reason, r.owedNow(), nil)}
	r.cancelling = true
}

func reasonOf(word string, detail []byte) string {
	if len(detail) == 0 {
		return word
	}
	return word + ": " + string(detail)
}

// Answer consumes an item in the next turn, with the owner's answer if it is a
// verb.
func (r *Run) Answer(no store.ItemNo, verdict []byte) {
	r.known[no] = struct{}{}
	r.log.Consume(no, verdict)
}

// Resumed tells the run that it was claimed again after its suspension.
func (r *Run) Resumed() { r.suspended = false }

// Over returns how the run has ended, or nil. It is the end only once its turn
// is committed.
func (r *Run) Over() *Outcome { return r.over }

// Broken returns why this activation cannot go on, or nil. The run is not
// harmed: load it again.
func (r *Run) Broken() error { return r.broken }

// Live reports whether the run has passed its recorded history.
func (r *Run) Live() bool { return r.live }

// Replayed returns how many recorded completions were handed over.
func (r *Run) Replayed() int { return r.replay.handed }

// Entries returns the number of entries of the incarnation.
func (r *Run) Entries() int { return r.entries }

// Notes returns what the process should log, and forgets it.
func (r *Run) Notes() []Note {
	notes := r.notes
	r.notes = nil
	return notes
}

// NextTimer returns the time at which Advance has something to do even if
// nothing arrives, or 0, as of a run that is about to be paused. needsInbox says that the inbox must have been read at
// that time or later.
func (r *Run) NextTimer() (at store.Time, needsInbox bool) {
	if r.over != nil || r.pause != nil {
		return 0, false
	}
	if t, ok := r.firstTimer(); ok {
		at, needsInbox = t.at, t.op.againstInbox()
	}
	if p := r.policyAt(); p != 0 && (at == 0 || p < at) {
		at, needsInbox = p, false
	}
	return at, needsInbox
}

// Unwind ends the goroutines of all branches: deferred functions run. The run
// cannot be used afterwards, except for Over, Replayed, Entries and Notes.
func (r *Run) Unwind() {
	r.sched.Unwind()
	r.root.Exit() // if it has ended and there was something to undo
}

// derive returns bytes that only this run has for the purpose and location.
func (r *Run) derive(purpose string, generation int, loc location.Loc, n int64) [32]byte {
	return stored.Derive(r.cfg.Run.Seed, purpose, generation, loc, n)
}

// random is derive for what hands nothing out: a run that was forked has it from
// the run that it was forked from.
func (r *Run) random(purpose string, loc location.Loc, n int64) [32]byte {
	seed := r.cfg.Run.Random
	if seed == (store.Seed{}) {
		seed = r.cfg.Run.Seed
	}
	return stored.Derive(seed, purpose, 0, loc, n)
}

// Body is a step body to be started.
type Body struct {
	ID       int64 // of the operation; unique in the activation
	Location location.Loc
	Attempt  int // from 1
	Func     BodyFunc
	Timeout  time.Duration // of the attempt; 0: none
	Deadline store.Time    // of all attempts; 0: none
	Detail   []byte        // of the former attempt's last heartbeat; nil: none

	run        *Run
	generation int
	born       int64
	kind       store.Kind
	owes       bool
	from       store.Time // when the first attempt started; 0: this is the first
}

// Entry returns the record of the step's success as the run will write it, but
// without its completion number, or the failure of a value that is too large. It is
// safe to call on any goroutine.
func (b *Body) Entry(started, ended store.Time, value []byte) (store.Entry, *stored.Failure) {
	if f := b.run.tooLarge(b.Location, value); f != nil {
		return store.Entry{}, f
	}
	if b.from != 0 {
		started = b.from
	}
	return store.Entry{
		Loc: string(b.Location), Kind: b.kind, State: store.Done, Born: b.born, Attempt: b.Attempt, Owes: b.owes, Generation: b.generation,
		Started: started, Ended: ended, Value: value,
	}, nil
}

// tooLarge returns the failure of a step's result that is too large, or nil.
func (r *Run) tooLarge(loc location.Loc, value []byte) *stored.Failure {
	if n := len(value); n > r.limits.Value {
		return &stored.Failure{Code: stored.CodeTooLarge, Message: fmt.Sprintf(
			"result of step %s has %d bytes, more than the limit of %d: store it elsewhere and return a reference", loc, n, r.limits.Value)}
	}
	return nil
}

// Key returns the idempotency key of the step. It is safe to call on any
// goroutine.
func (b *Body) Key() string { return b.run.Key(b.Location, b.generation) }

// BodyFunc executes a step. It runs outside the run's goroutines.
type BodyFunc func(ctx context.Context, body *Body) BodyResult

// BodyResult is the end of an attempt.
type BodyResult struct {
	Value   []byte
	Failure *stored.Failure
	Final   bool // a failure that must not be retried
	Never   bool // a failure that is no attempt: the body has not begun
	Started store.Time
	Ended   store.Time
	// Recorded is the step's entry if it is in the store already, written by the
	// body with Body.Entry, perhaps in a former attempt. Value is its value.
	Recorded *store.Entry
}
