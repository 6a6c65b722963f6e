package attempts

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Step asks for a side effect that is recorded.
type Step struct {
	Call   sched.Call
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
	// Kind and Limit say of how many attempts a node executes one at a time; "": there is no
	// such limit.
	Kind  string
	Limit int
	// Task has each attempt offered to the workers of the queue that Permit names, in place of
	// executing Func; nil: it is not.
	Task *Task
}

// Undo is the compensation that a step carries.
type Undo struct {
	// Func undoes the step's value.
	Func   func(ctx context.Context, body *Body, value []byte) BodyResult
	Policy Policy
	// Permit is that of Step.
	Permit *permit.Place
	// Task returns what is offered to workers on the queue of Permit in place of executing Func, or nil
	// if the step's value is none for a worker: Func says why, without a permit. A Task that is nil:
	// Func is executed.
	Task func(value []byte) *Task
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
	// Final reports whether a timeout or a panic of an attempt must not be retried. It is
	// called on any goroutine, and may panic. nil: none of them is final.
	Final func(*stored.Failure) bool
}

// step is a step, or with undo a compensation. It takes effect when a branch waits
// for it, and then goes from attempt to attempt.
type step struct {
	journal.Op
	s     *Steps
	spec  Step
	whole bool // a cancel waits for its end

	attempt int  // attempts that have ended
	former  int  // of these, in former rounds: all were used up, and a person has requested more
	busy    bool // a body waits for the barrier, is given out, or its end has arrived
	queued  bool // of these, it waits
	given   bool // of these, it is given out
	held    bool // it would have asked for a permit, had the run not stood still
	barrier int64
	causes  []*stored.Failure
	detail  []byte      // of the last heartbeat
	trouble bool        // the run is to be paused for its failures
	unsure  bool        // a body of a former activation, or a worker that was lost or late, may have had an effect
	permit  *stepPermit // while it waits for one or has one; nil: neither
	// returned is the permit that was given back with the end of its attempt, in the same
	// turn; nil: none.
	returned *stepPermit
	from     store.Time // when the first attempt started
	until    store.Time // when the last one ended
	emitted  emitting
	begun    store.Time  // when the one that is executing started, if that is recorded
	ending   *BodyResult // the end of an attempt that was not looked at; nil: none has arrived
	lead     stored.Lead // of the next attempt, or of the last one

	recorded *store.Entry // is in the store already, without a completion number
	over     bool         // its end is recorded, and is handed over when the run goes on
}

// attemptEnd is the end of an attempt that waits to be looked at.
type attemptEnd struct {
	step   *step
	result *BodyResult
}

// Step executes a step for the code of a branch and returns its encoded value.
func (s *Steps) Step(b *sched.Branch, spec Step) ([]byte, error) {
	o := &step{s: s, spec: spec, whole: spec.Whole || spec.Undo != nil}
	s.j.Declare(b, &o.Op, o, spec.Call, store.KindStep)
	s.continueFrom(b, o)
	if err := o.Wait(b, spec.Call); err != nil {
		return nil, err // a cancelled one may have a value: its record keeps the outcome
	}
	return o.Value, nil
}

// continueFrom takes the former attempts of an operation from its record.
func (s *Steps) continueFrom(b *sched.Branch, o *step) {
	if o.Rec == nil || o.Rec.State != store.Open && o.Rec.State != store.Withdrawn {
		return
	}
	o.attempt, o.Deadline, o.from = o.Rec.Attempt, o.Rec.Wake, o.Rec.Started
	p, err := s.progressOf(o.Rec.Entry)
	if err != nil {
		b.Halt()
	}
	o.causes, o.detail, o.former = p.Causes, p.Detail, p.Former
	o.trouble = p.Pause && s.pauseAfter > 0
	o.unsure, o.emitted = p.Unsure, emitting{p.Emitted, p.Own, p.Lease}
	o.lead = stored.Lead{Asked: p.Asked}
	if o.attempt > 0 {
		o.lead.Due = o.Deadline
	}
	if p.Since != 0 {
		o.Asked = p.Since
	}
	s.permits.hold(o, &p)
}

// progressOf reads the value of an open step. After an error the run is damaged, or the
// activation broken.
func (s *Steps) progressOf(e *store.Entry) (stored.Progress, error) {
	value, err := s.j.FetchValue(e)
	if err != nil {
		return stored.Progress{}, err
	}
	p, err := stored.DecodeProgress(value)
	if err != nil {
		s.j.Owner.Damaged(location.Loc(e.Loc), err)
	}
	return p, err
}

func (o *step) Start() {
	if !o.StartsNow() {
		return
	}
	s := o.s
	s.open[o.ID] = o
	if o.trouble {
		s.pauseFor(o)
	}
	o.unsure = o.unsure || o.mayHaveBegun()
	if o.Deadline > s.j.Bound() {
		s.j.Timers.Set(o, o.Deadline)
		return
	}
	o.beginAttempt()
}

// beginAttempt queues the next body, when it has the permit that it needs.
func (o *step) beginAttempt() {
	if o.s.permits.allow(o) {
		o.s.enqueue(o)
	}
}

// mayHaveBegun reports whether the body of the next attempt may have had an effect, to be
// undone, in a former activation: all completions before the call were durable then, and
// nothing shows that the body had to wait. One in a transaction would have left a record.
func (o *step) mayHaveBegun() bool {
	switch s := o.s; {
	case !o.leavesNoTrace():
		return false
	case o.Deadline > s.j.Bound():
		return false
	case o.spec.Permit != nil:
		return false // until it has a grant that an activation has seen
	}
	return true
}

// leavesNoTrace reports whether a former activation can have begun a body whose effect is
// to be undone, without a record of it. What the code has requested after the last
// recorded completion was not given out.
func (o *step) leavesNoTrace() bool {
	return o.owes() && !o.spec.Whole && !o.s.first && o.Born <= o.s.j.Recorded()
}

// Abandon closes a step, unless its end must be known. Whether it has begun is not
// known to a replay, so in a replay nothing happens here. A body that a former
// activation may have begun is executed, and not cancelled: only its end tells whether
// there is an effect.
func (o *step) Abandon() (stays bool) {
	if !o.whole {
		return o.Op.Abandon()
	}
	s := o.s
	o.Refused = true
	if o.unsure || o.over {
		return true
	}
	o.Deadline = 0 // no attempt follows
	switch {
	case !s.j.Live() || o.busy && !o.queued && !o.given:
	case o.offered():
		s.permits.recall(o)
	case o.given:
		s.cancels = append(s.cancels, o.ID)
	default:
		s.settle(o)
		o.busy = true
		s.inFlight++
		end := NeverBegun(s.j.Now())
		s.ended.Push(attemptEnd{o, &end})
	}
	return true
}

// Withdraw forgets the body of a closed step and cancels it if it was given out. What is known of bodies that have
// begun is recorded, and their end when it arrives: they may have had an effect.
func (o *step) Withdraw() {
	s := o.s
	if o.given {
		s.cancels = append(s.cancels, o.ID)
		if s.cut == nil {
			s.cut = map[int64]*step{}
		}
		s.cut[o.ID] = o
		o.In.OnPrune(func() { delete(s.cut, o.ID) })
	}
	s.settle(o)
	if s.j.Live() {
		s.permits.withdraw(o)
	}
	delete(s.open, o.ID)
	if !o.over { // what is recorded stays
		o.Op.Withdraw()
	}
	switch end := o.ending; {
	case !s.j.Live() || o.over:
	case end != nil && !end.Never && end.Started != 0:
		o.cutOff(end)
	case o.attempt > 0 && len(o.causes) > 0:
		o.Cut(store.Entry{
			Attempt: o.attempt, Started: o.from, Ended: o.causes[len(o.causes)-1].Ended, Owes: o.owes(),
			Value: stored.Progress{Causes: o.causes, Detail: o.detail, Former: o.former, Emitted: o.emitted.all}.Encode(),
		})
	}
}

// cutOff records a body that was executing when its step was withdrawn, with its end; nil: that is not known.
func (o *step) cutOff(end *BodyResult) {
	e := store.Entry{Attempt: o.attempt + 1, Started: o.from, Owes: o.owes()}
	p := stored.Progress{Causes: o.causes, Detail: o.detail, Former: o.former, Emitted: o.emitted.all}
	if end == nil {
		p.Begun = o.begun
	} else {
		if o.from == 0 {
			e.Started = end.Started
		}
		e.Ended, p.Succeeded = end.Ended, end.Failure == nil
		if end.Failure != nil {
			p.Causes = stored.AddCause(slices.Clone(o.causes), end.Failure, o.lead, end.Started, end.Ended)
		}
	}
	e.Value = p.Encode()
	o.Cut(e)
}

// Began records that the body of a withdrawn step had begun, if its end has not arrived. ended says that the run
// ends: then that is so of any step. A body in a transaction is left alone. If it is cut, the transaction is rolled
// back and there is no effect; otherwise the transaction has written the step's entry, with the effect.
func (s *Steps) Began(id int64, started store.Time, ended bool) {
	o := s.cut[id]
	if o == nil && ended {
		if o = s.open[id]; o != nil && !o.given {
			o = nil
		}
	}
	if o == nil || o.spec.Whole {
		return
	}
	if o.begun = started; o.from == 0 {
		o.from = started
	}
	o.cutOff(nil)
}

func (o *step) Outcome(e store.Entry) store.Entry {
	e.Attempt, e.Started, e.Ended, e.Owes = o.attempt, o.from, o.until, o.owes()
	switch rec := o.recorded; {
	case rec != nil:
		e.Attempt, e.Started, e.Ended, e.Wake, e.Value = rec.Attempt, rec.Started, rec.Ended, rec.Wake, rec.Value
	case o.Failure == nil:
		e.Value, e.Wake = o.tried()
	}
	if o.owes() && o.Failure == nil {
		o.s.owner.Owe(&o.Op, o.spec.Undo)
	}
	return e
}

// Recall takes the value without the causes of failed attempts.
func (o *step) Recall(value []byte) error {
	t, err := stored.SplitTried(value)
	if err != nil {
		return err
	}
	return o.Op.Recall(t.Value)
}

// tried returns the stored form of the value of a step that has succeeded, and since when its last attempt had waited
// before it began; 0: it had not.
func (o *step) tried() (value []byte, since store.Time) {
	lead := o.lead.Notice(o.lead.Began)
	return stored.WithTried(o.causes, lead, o.Value), lead.Since()
}

// owes reports whether the step carries a compensation.
func (o *step) owes() bool { return o.spec.Undo != nil }

// Postpone records the end of a step that is handed over when the run goes on.
func (o *step) Postpone() {
	if o.recorded != nil {
		return // its entry is in the store
	}
	e := store.Entry{
		State: store.Done, Attempt: o.attempt, Started: o.from, Ended: o.until, Owes: o.owes(),
	}
	if e.Value, e.Wake = o.tried(); o.Failure != nil {
		e.State, e.Value, e.Wake = store.FailedEntry, stored.EncodeFailure(o.Failure), 0
	}
	o.Write(e)
	o.over = true
	o.s.postponed.Push(o)
}

func (o *step) Retract() {
	o.s.permits.giveBack(o.returned)
	o.Postpone()
}

// maxShownError bounds what the row of a suspended run says of a failure.
const maxShownError = 200

func (o *step) Show(w *journal.Wait) {
	if w.Failed = o.attempt - o.former; w.Failed > 0 && len(o.causes) > 0 {
		w.Error = stored.Cut(o.causes[len(o.causes)-1].Message, maxShownError)
	}
	if o.permit == nil || o.permit.grant != nil {
		w.EndsAt(o.Deadline)
		return
	}
	w.Queue = o.permit.place.Queue
	if o.offered() {
		w.Task, w.Ticket = o.permit.task, o.permit.place.Ticket
	}
	w.EndsAt(o.permit.until)
}

// DueAt returns when the next attempt begins, or the wait for its permit is over.
func (o *step) DueAt() store.Time {
	switch {
	case o.queued:
		return 0
	case o.permit != nil:
		return o.permit.until
	}
	return o.Deadline
}

func (o *step) Due() {
	if o.permit != nil {
		o.s.permits.late(o)
	} else {
		o.beginAttempt()
	}
}

func (o *step) AgainstInbox() bool { return false }
func (o *step) IsDelay() bool      { return true }

// writeProgress records the attempts so far. wake is when the next one begins; 0: it
// does at once, or waits for its permit.
func (o *step) writeProgress(wake store.Time) {
	p := stored.Progress{Causes: o.causes, Detail: o.detail, Former: o.former, Pause: o.trouble, Unsure: o.unsure,
		Begun: o.begun, Emitted: o.emitted.all}
	if o.emitted.lease != 0 {
		p.Lease, p.Own = o.emitted.lease, o.emitted.own
	}
	if o.Kind.Undoes() && o.attempt > p.Former {
		p.Since = o.Asked
	}
	if x := o.permit; x != nil {
		p.Permit = &x.place
		p.Task, p.Input, p.Asked = x.task, x.input, o.lead.Asked
	}
	o.s.progress = true
	o.Write(store.Entry{
		State: store.Open, Attempt: o.attempt, Wake: wake, Started: o.from, Owes: o.owes(),
		Value: p.Encode(),
	})
}

// attemptEnded looks at the end of an attempt: it is the end of the step, or a retry
// follows.
func (s *Steps) attemptEnded(end attemptEnd) {
	o, result := end.step, *end.result
	if !o.busy {
		return // closed since
	}
	o.begun, o.emitted.own, o.emitted.lease, o.ending = 0, nil, 0, nil
	s.settle(o)
	if u := result.Undecodable; u != nil && s.owner.Undecodable(o.Loc, u) {
		return
	}
	if f := s.tooLarge(o.Loc, result.Value); f != nil {
		result.Final, result.Failure, result.Unrecorded = true, f, true
	}
	stops := result.Unrecorded && !o.Kind.Undoes() &&
		s.owner.Unrecorded(o.Loc, result.Failure, o.owes() && !o.spec.Whole)
	if o.permit != nil {
		o.permit.spent = result.Spent
	}
	o.lead.Placed = result.Placed
	o.returned = s.permits.end(o)
	if o.from == 0 {
		o.from = result.Started
	}
	if stops {
		o.executeAgain()
		return
	}
	if !result.Never {
		o.attempt++
	}
	o.until = result.Ended
	if result.Failure == nil {
		if delete(s.open, o.ID); o.attempt > 1 || o.lead != (stored.Lead{}) {
			o.lead.Began = result.Started
		}
		o.Value, o.recorded = result.Value, result.Recorded
		o.HandOver()
		return
	}
	if result.Never {
		result.Started, result.Ended = 0, 0
	}
	o.causes = stored.AddCause(o.causes, result.Failure, o.lead, result.Started, result.Ended)
	next := s.j.Bound().Add(max(o.delay(), result.After))
	if result.Final || o.Refused && !o.unsure || o.usedUp(next) {
		o.Is.(attempted).giveUp()
		return
	}
	o.Deadline, o.lead = next, stored.Lead{Due: next}
	s.j.Barrier()
	if s.failsTooOften(o) {
		o.trouble = true
		s.pauseFor(o)
	}
	o.writeProgress(next)
	s.failed = append(s.failed, Failed{Location: o.Loc, Attempt: o.attempt, Next: next, Failure: result.Failure})
	s.j.Timers.Set(o, next)
}

// executeAgain keeps a step open whose result could not be recorded: the next activation
// executes its body again, and so for a cancel and a terminate it may have had an effect. It
// is no attempt of the policy. What a transaction has done was rolled back.
func (o *step) executeAgain() {
	delete(o.s.open, o.ID)
	o.unsure = o.owes() && !o.spec.Whole
	o.writeProgress(0)
}

// Failed is an attempt that has failed, and that another one follows.
type Failed struct {
	Location location.Loc
	Attempt  int
	Next     store.Time // when the other one begins
	Failure  *stored.Failure
}

// TakeFailed returns the attempts that have failed since it was called last.
func (s *Steps) TakeFailed() []Failed {
	failed := s.failed
	s.failed = nil
	return failed
}

// TakeWithdrawn returns the tasks of steps that were withdrawn, or were open as the run ended, since it was called
// last. Their queues know whether a worker had begun them.
func (s *Steps) TakeWithdrawn() []permit.Withdrawn {
	withdrawn := s.permits.withdrawn
	s.permits.withdrawn = nil
	return withdrawn
}

// attempted is an operation with attempts.
type attempted interface {
	// giveUp is called when its last attempt has failed.
	giveUp()
}

// usedUp reports whether there is no attempt at next any more.
func (o *step) usedUp(next store.Time) bool {
	policy := &o.spec.Policy
	return policy.Overall > 0 && next >= o.Asked.Add(policy.Overall) ||
		policy.Attempts > 0 && o.attempt-o.former >= policy.Attempts
}

// giveUp hands over the failure of a step.
func (o *step) giveUp() {
	delete(o.s.open, o.ID)
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
func (o *step) delay() time.Duration {
	h := o.s.j.Random("jitter", o.Loc, int64(o.attempt))
	return o.spec.Policy.Delay(o.attempt-o.former, float64(binary.BigEndian.Uint32(h[:]))/math.MaxUint32)
}

// Delay returns the time before the attempt that follows so many. unit, from 0 to 1, is
// where in the range of its jitter it lies.
func (p *Policy) Delay(attempts int, unit float64) time.Duration {
	if p.First == 0 {
		return 0 // times a power that has no bound it would be no number
	}
	d := float64(p.First) * math.Pow(p.Factor, float64(attempts-1))
	d = min(d, float64(p.Max))
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

// undo is a compensation.
type undo struct {
	step
	undone func()
}

// Undoing asks for a compensation.
type Undoing struct {
	Kind   store.Kind // KindUndo or KindSagaUndo
	At     location.Loc
	In     *journal.Segment
	Policy Policy
	// Body returns, as Func, Permit and Task of a step, what is executed; done is set if the compensation
	// is recorded already.
	Body func(done bool) Step
	// Undone is called when it is handed over.
	Undone func()
}

// Undo executes a compensation for the code of a branch. A cancel does not reach it.
func (s *Steps) Undo(b *sched.Branch, u Undoing) error {
	o := &undo{step{s: s}, u.Undone}
	s.j.DeclareAt(b, &o.Op, o, u.At, u.Kind, u.In)
	o.Asked = s.j.Bound()
	s.continueFrom(b, &o.step)
	o.spec = u.Body(o.Rec != nil && o.Rec.State == store.Done)
	o.spec.Policy = u.Policy
	return o.Wait(b, sched.Call{Shield: true})
}

// Abandon is called when the code of the run goes no further. What has begun is seen to its
// end; what a replay has requested and nobody has recorded was requested by no one before.
func (o *undo) Abandon() (stays bool) {
	if !o.s.j.Live() && o.Rec == nil {
		return o.Op.Abandon()
	}
	return true
}

func (o *undo) Outcome(e store.Entry) store.Entry {
	o.undone()
	return o.step.Outcome(e)
}

func (o *undo) Recall(value []byte) error {
	o.undone()
	return o.step.Recall(value)
}

// giveUp stops the run for a person because a compensation has failed for good. When it
// is resumed the compensation has all its attempts again.
func (o *undo) giveUp() {
	s := o.s
	delete(s.open, o.ID)
	o.former = o.attempt
	s.j.Barrier()
	o.writeProgress(0)
	s.owner.UndoFailed(o.Loc, o.causes[len(o.causes)-1].Message)
}

// UndoOf returns what the code has to undo a recorded operation with, or nil.
func UndoOf(o *journal.Op) *Undo {
	if x, ok := o.Is.(interface{ Compensation() *Undo }); ok {
		return x.Compensation()
	}
	return nil // Removed
}

// Compensation returns what undoes the step, or nil.
func (o *step) Compensation() *Undo { return o.spec.Undo }

// failsTooOften reports whether the run is to be paused for the attempt of a step that
// has just failed, and that another one is to follow.
func (s *Steps) failsTooOften(o *step) bool {
	n := s.pauseAfter
	return n > 0 && (o.attempt-o.former)%n == 0 && !o.Refused && !s.owner.BeingCancelled()
}

// pauseFor lets the run stand still for the failures of a step, to be paused. Other
// bodies may be executing, and the process may end before they do: the step's entry says
// until the turn that pauses the run that it is to be paused.
func (s *Steps) pauseFor(o *step) {
	s.troubled = append(s.troubled, o)
	reason := fmt.Sprintf("%s has failed %d times", journal.Describe(o.Kind, o.Loc), o.attempt-o.former)
	if n := len(o.causes); n > 0 {
		reason += ", at last with: " + o.causes[n-1].Message
	}
	s.owner.PauseFor(reason)
}

// Pauses records, in the turn that pauses the run, that it was paused for its steps.
func (s *Steps) Pauses() {
	for _, o := range s.troubled {
		o.trouble = false
		if !o.Settled() && !o.Closed {
			o.writeProgress(o.Deadline)
		}
	}
	s.troubled = nil
}
