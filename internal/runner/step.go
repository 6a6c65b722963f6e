package runner

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Step asks for a side effect that is recorded.
type Step struct {
	Call   Call
	Func   BodyFunc
	Policy Policy
	// Undo is the step's compensation, or nil. With one, a cancel waits for the
	// step's end and records it.
	Undo *Undo
	// Whole says that a cancel waits for the step's end in any case: what its body
	// does may be in the store before the run knows of it.
	Whole bool
	// Permit is where each attempt asks for a permit, without a ticket; nil: none is
	// needed.
	Permit *permit.Place
}

// Policy says how often and when a step is tried. All fields are set.
type Policy struct {
	Attempts int           // in total; negative: without limit
	First    time.Duration // before the second attempt
	Factor   float64
	Max      time.Duration
	Jitter   float64       // share of the delay by which it varies, both ways
	Timeout  time.Duration // per attempt; 0: none
	Overall  time.Duration // for all attempts; 0: none
}

// stepOp is a step, or with undoOp a compensation. It takes effect when a branch waits
// for it, and then goes from attempt to attempt:
//
//	        permit          barrier          Bodies          Complete
//	start ──────────► queued ──────► may begin ─────► given ─────────► ended ──► done
//	  ▲                                                                  │
//	  └────────────────────── retry delay ◄──────────────────────────────┘ failed
type stepOp struct {
	op
	spec  Step
	whole bool // a cancel waits for its end

	attempt int  // attempts that have ended
	former  int  // of these, in former rounds: all were used up, and a person has requested more
	busy    bool // a body waits for the barrier, is given out, or its end has arrived
	queued  bool // of these, it waits
	given   bool // of these, it is given out
	barrier int64
	causes  []*stored.Failure
	detail  []byte      // of the last heartbeat
	trouble bool        // the run is to be paused for its failures
	permit  *stepPermit // while it waits for one or has one; nil: neither
	from    store.Time  // when the first attempt started
	until   store.Time  // when the last one ended

	recorded *store.Entry // is in the store already, without a completion number
}

// ended is the end of an attempt that waits to be looked at.
type ended struct {
	op     *stepOp
	result BodyResult
}

// Step executes a step and returns its encoded value.
func (b *Branch) Step(s Step) ([]byte, error) {
	if err := b.Enter(s.Call); err != nil {
		return nil, err
	}
	o := &stepOp{spec: s, whole: s.Whole || s.Undo != nil}
	b.declare(&o.op, o, s.Call, store.KindStep)
	b.continueFrom(o)
	err := o.Wait(&b.Branch, s.Call)
	return o.Value, err
}

// continueFrom takes the former attempts of an operation from its record.
func (b *Branch) continueFrom(o *stepOp) {
	if o.Rec == nil || o.Rec.State != store.Open && o.Rec.State != store.Withdrawn {
		return
	}
	o.attempt, o.Deadline, o.from = o.Rec.Attempt, o.Rec.Wake, o.Rec.Started
	p, err := b.run.progressOf(o.Rec.Entry)
	if err != nil {
		b.Halt()
	}
	o.causes, o.detail, o.former = p.Causes, p.Detail, p.Former
	o.trouble = p.Pause && b.run.cfg.PauseAfter > 0
	if p.Since != 0 {
		o.Asked = p.Since
	}
	b.run.permits.hold(o, p.Permit)
}

// progressOf reads the value of an open step. After an error the run is damaged or
// broken.
func (r *Run) progressOf(e *store.Entry) (stored.Progress, error) {
	value, err := r.j.FetchValue(e)
	if err != nil {
		return stored.Progress{}, err
	}
	p, err := stored.DecodeProgress(value)
	if err != nil {
		r.damaged(location.Loc(e.Loc), err)
	}
	return p, err
}

func (o *stepOp) Start() {
	if !o.StartsNow() {
		return
	}
	r := o.run
	r.steps.open[o.ID] = o
	if o.trouble {
		r.pauseFor(o)
	}
	if o.Deadline > r.j.Bound() {
		r.j.Timers.Set(o, o.Deadline)
		return
	}
	o.beginAttempt()
}

// beginAttempt queues the next body, when it has the permit that it needs.
func (o *stepOp) beginAttempt() {
	if o.run.permits.allow(o) {
		o.run.steps.enqueue(o)
	}
}

// Abandon closes a step, unless its end must be known. Whether it has begun is not
// known to a replay, so in a replay nothing happens here.
func (o *stepOp) Abandon() (stays bool) {
	if !o.whole {
		return o.op.Abandon()
	}
	r := o.run
	o.Refused = true
	o.Deadline = 0 // no attempt follows
	switch {
	case !r.j.Live() || o.busy && !o.queued && !o.given:
	case o.given:
		r.steps.cancels = append(r.steps.cancels, o.ID)
	default:
		r.steps.settle(o)
		o.busy = true
		r.steps.inFlight++
		r.arrivals.bodies.Push(ended{o, NeverBegun(r.j.Now())})
	}
	return true
}

// Withdraw forgets the body of a closed step and cancels it if it was given out.
func (o *stepOp) Withdraw() {
	r := o.run
	if o.given {
		r.steps.cancels = append(r.steps.cancels, o.ID)
	}
	r.steps.settle(o)
	if r.j.Live() {
		r.permits.end(o)
	}
	delete(r.steps.open, o.ID)
	o.op.Withdraw()
}

func (o *stepOp) Outcome(e *store.Entry) {
	e.Attempt, e.Started, e.Ended, e.Owes = o.attempt, o.from, o.until, o.owes()
	if rec := o.recorded; rec != nil {
		e.Attempt, e.Started, e.Ended = rec.Attempt, rec.Started, rec.Ended
	}
	if o.owes() && o.Failure == nil {
		o.run.owe(&o.Op, o.spec.Undo, o.run.j.Seq(), o.run.j.Pos())
	}
}

// owes reports whether the step carries a compensation.
func (o *stepOp) owes() bool { return o.spec.Undo != nil }

// Postpone records the end of a step that is handed over when the run goes on.
func (o *stepOp) Postpone() {
	e := store.Entry{State: store.Done, Attempt: o.attempt, Started: o.from, Ended: o.until, Owes: o.owes(), Value: o.Value}
	if o.Failure != nil {
		e.State, e.Value = store.FailedEntry, stored.EncodeFailure(o.Failure)
	}
	o.Write(e)
}

func (o *stepOp) Show(w *journal.Wait) {
	if o.permit == nil {
		w.EndsAt(o.Deadline)
		return
	}
	w.Queue = o.permit.place.Queue
	w.EndsAt(o.permit.until)
}

// DueAt returns when the next attempt begins, or the wait for its permit is over.
func (o *stepOp) DueAt() store.Time {
	switch {
	case o.queued:
		return 0
	case o.permit != nil:
		return o.permit.until
	}
	return o.Deadline
}

func (o *stepOp) Due() {
	if o.permit != nil {
		o.run.permits.late(o)
	} else {
		o.beginAttempt()
	}
}

func (o *stepOp) AgainstInbox() bool { return false }
func (o *stepOp) IsDelay() bool      { return true }

// writeProgress records the attempts so far. wake is when the next one begins; 0: it
// does at once, or waits for its permit.
func (o *stepOp) writeProgress(wake store.Time) {
	p := stored.Progress{Causes: o.causes, Detail: o.detail, Former: o.former, Pause: o.trouble}
	if o.Kind == store.KindUndo && o.attempt > p.Former {
		p.Since = o.Asked
	}
	if o.permit != nil {
		p.Permit = &o.permit.place
	}
	o.Write(store.Entry{
		State: store.Open, Attempt: o.attempt, Wake: wake, Started: o.from, Owes: o.owes(),
		Value: p.Encode(),
	})
}

// attemptEnded looks at the end of an attempt: it is the end of the step, or a retry
// follows.
func (r *Run) attemptEnded(end ended) {
	o, result := end.op, end.result
	if !o.busy {
		return // closed since
	}
	r.steps.settle(o)
	r.permits.end(o)
	if !result.Never {
		o.attempt++
	}
	o.until = result.Ended
	if o.from == 0 {
		o.from = result.Started
	}
	if f := r.tooLarge(o.Loc, result.Value); f != nil {
		result.Final, result.Failure = true, f
	}
	if result.Failure == nil {
		delete(r.steps.open, o.ID)
		o.Value, o.recorded = result.Value, result.Recorded
		o.HandOver()
		return
	}
	o.causes = stored.AddCause(o.causes, result.Failure)
	next := r.j.Bound().Add(o.delay())
	if result.Final || o.Refused || o.usedUp(next) {
		o.Is.(attempted).giveUp()
		return
	}
	o.Deadline = next
	r.j.Barrier()
	if r.failsTooOften(o) {
		o.trouble = true
		r.pauseFor(o)
	}
	o.writeProgress(next)
	r.j.Timers.Set(o, next)
}

// attempted is an operation with attempts.
type attempted interface {
	// giveUp is called when its last attempt has failed.
	giveUp()
}

// usedUp reports whether there is no attempt at next any more.
func (o *stepOp) usedUp(next store.Time) bool {
	policy := &o.spec.Policy
	return policy.Overall > 0 && next >= o.Asked.Add(policy.Overall) ||
		policy.Attempts > 0 && o.attempt-o.former >= policy.Attempts
}

// giveUp hands over the failure of a step.
func (o *stepOp) giveUp() {
	delete(o.run.steps.open, o.ID)
	last := &stored.Failure{Code: stored.CodeCancelled, Message: "cancelled before it began"}
	if n := len(o.causes); n > 0 {
		last = o.causes[n-1]
	}
	o.Failure = &stored.Failure{
		Code: stored.CodeStep, Location: o.Loc.String(), Attempts: o.attempt, Cause: last, Causes: o.causes,
		Message: fmt.Sprintf("step %s failed after %d attempts: %s", o.Loc, o.attempt, last.Message),
	}
	if o.attempt == 1 || o.attempt == 0 && last.Code != stored.CodeCancelled {
		o.Failure.Message = fmt.Sprintf("step %s failed: %s", o.Loc, last.Message)
	}
	o.HandOver()
}

// delay returns the time before the next attempt. Its jitter follows from the run, the
// location and the attempt.
func (o *stepOp) delay() time.Duration {
	p := &o.spec.Policy
	d := float64(p.First) * math.Pow(p.Factor, float64(o.attempt-o.former-1))
	d = min(d, float64(p.Max))
	h := o.run.j.Random("jitter", o.Loc, int64(o.attempt))
	unit := float64(binary.BigEndian.Uint32(h[:])) / math.MaxUint32 // 0 to 1
	d *= 1 + p.Jitter*(2*unit-1)
	return time.Duration(min(d, float64(math.MaxInt64/2)))
}

// NeverBegun is the end of a body that was cancelled before it began.
func NeverBegun(now store.Time) BodyResult {
	return BodyResult{
		Failure: &stored.Failure{Code: stored.CodeCancelled, Message: "cancelled before it began"},
		Final:   true, Never: true, Started: now, Ended: now,
	}
}

// Key returns the idempotency key of an operation that the code called at loc in a
// generation: the same over attempts, replays and retries, new after a rewind.
func (r *Run) Key(loc location.Loc, generation int) string {
	h := stored.Derive(r.cfg.Run.Seed, "key", generation, loc, 0)
	return hex.EncodeToString(h[:16])
}
