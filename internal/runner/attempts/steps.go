package attempts

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"

	"github.com/stet-run/stet/internal/fifo"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Owner is the run to which Steps belong.
type Owner interface {
	// Owe is called when a step that carries a compensation is handed over as done.
	Owe(o *journal.Op, undo *Undo)
	// UndoFailed stops the run because a compensation has failed for good.
	UndoFailed(loc location.Loc, why string)
	// Undecodable is called for an attempt that has failed because what is recorded does
	// not fit its code. It reports whether that stops the run; otherwise the attempt has
	// failed.
	Undecodable(loc location.Loc, u *journal.Undecodable) (stops bool)
	// Unrecorded is called for an attempt whose result, or another value of its body, cannot
	// be recorded; owes says that it may have had an effect which is to be undone. It reports
	// whether that stops the run; otherwise the attempt has failed.
	Unrecorded(loc location.Loc, f *stored.Failure, owes bool) (stops bool)
	// PauseFor lets the run stand still, to be paused for a reason.
	PauseFor(reason string)
	// BeingCancelled reports whether the cancel of the run is to be handed over.
	BeingCancelled() bool
	// Note adds a line to the log of the process.
	Note(loc location.Loc, text string, err error)
}

// Steps are the steps and compensations of one run whose attempts have not ended. Its
// methods are called by the goroutine that has the baton.
type Steps struct {
	j          *journal.Journal
	owner      Owner
	pauseAfter int  // failed attempts in a row; 0: never
	first      bool // no activation before this one has given out a body

	open      map[int64]*step        // with a body waiting, running, or between attempts
	queue     fifo.Queue[*step]      // bodies that wait for the barrier
	ended     fifo.Queue[attemptEnd] // attempts whose end is to be looked at
	inFlight  int                    // bodies queued or given out and not closed
	cancels   []int64                // bodies that were given out and are wanted no more
	cut       map[int64]*step        // of these, whose steps are withdrawn: their ends are recorded
	postponed fifo.Queue[*step]      // have ended while the run stood still, and are recorded
	troubled  []*step                // whose failures request a pause
	failed    []Failed               // attempts that failed in the turn that fills
	progress  bool                   // more than that a body executes was recorded of an open step since TakeProgress
	permits   permits
}

// New returns the steps of a run, with the permits that its history has asked for. The
// run is paused after so many failed attempts in a row; 0: never. first says that no
// activation before this one has given out a body.
func New(j *journal.Journal, owner Owner, pauseAfter int, first bool) *Steps {
	s := &Steps{j: j, owner: owner, pauseAfter: pauseAfter, first: first, open: map[int64]*step{}}
	s.permits.s = s
	s.permits.init()
	return s
}

// DeliverGrant takes a grant of a permit from the inbox.
func (s *Steps) DeliverGrant(it store.Item) { s.permits.deliver(it) }

// GoLive is called when the run goes live.
func (s *Steps) GoLive() { s.permits.goLive() }

// End gives back the permits that the run has asked for, as it ends.
func (s *Steps) End() { s.permits.endAll() }

// NextGrant lets the attempt begin whose permit has come first. It reports whether there
// was one.
func (s *Steps) NextGrant() bool { return s.permits.next() }

// NextEnd looks at the end of the attempt that has ended first. It reports whether there
// was one.
func (s *Steps) NextEnd() bool {
	if s.ended.Len() == 0 {
		return false
	}
	s.attemptEnded(s.ended.Pop())
	return true
}

// NextPostponed hands over the step that has ended first of those that have ended while
// the run stood still. It reports whether there was one.
func (s *Steps) NextPostponed() bool {
	if s.postponed.Len() == 0 {
		return false
	}
	o := s.postponed.Pop()
	if o.Closed {
		return true // by one that was handed over before
	}
	o.over, o.returned = false, nil // returned in the turn that has recorded its end
	o.HandOver()
	return true
}

// GoOn goes on after the run has stood still and was not paused: bodies that were held back
// wait for the barrier again, and attempts that would have asked for a permit ask for it.
func (s *Steps) GoOn() {
	s.Pauses() // it was not paused for them, and is not after a crash
	for s.queue.Len() > 0 {
		s.queue.Pop()
	}
	var waiting []*step
	for _, o := range s.open {
		if o.queued || o.held {
			waiting = append(waiting, o)
		}
	}
	slices.SortFunc(waiting, func(a, b *step) int {
		return cmp.Or(cmp.Compare(a.barrier, b.barrier), cmp.Compare(a.ID, b.ID))
	})
	for _, o := range waiting {
		if o.queued {
			s.queue.Push(o)
			continue
		}
		o.held = false
		o.beginAttempt()
	}
}

// Open returns how many steps have not ended.
func (s *Steps) Open() int { return len(s.open) }

// Queued returns how many bodies are in the queue for the barrier, or were.
func (s *Steps) Queued() int { return s.queue.Len() }

// InFlight returns how many bodies are queued or given out.
func (s *Steps) InFlight() int { return s.inFlight }

// Settled reports whether no body is given out, and no end of an attempt is to be looked
// at.
func (s *Steps) Settled() bool { return !s.executing() && s.ended.Len() == 0 }

// Arrived returns how many grants and ends of attempts are to be looked at.
func (s *Steps) Arrived() int { return s.ended.Len() + s.postponed.Len() + len(s.permits.granted) }

// Key returns the idempotency key of an operation that the code called at loc in a
// generation: the same over attempts, replays and retries, new after a rewind.
func (s *Steps) Key(loc location.Loc, generation int) string {
	h := stored.Derive(s.j.Run.Seed, "key", generation, loc, 0)
	return hex.EncodeToString(h[:16])
}

// enqueue lets a body wait until what was handed over so far is durable.
func (s *Steps) enqueue(o *step) {
	o.busy, o.queued, o.barrier = true, true, s.j.Pos()
	s.inFlight++
	s.queue.Push(o)
}

// settle notes that no body of the step is queued or under way any more.
func (s *Steps) settle(o *step) {
	if o.busy {
		o.busy, o.queued, o.given = false, false, false
		s.inFlight--
	}
}

// current returns the step whose body of an attempt is given out, or nil.
func (s *Steps) current(id int64, attempt int) *step {
	if o := s.open[id]; o != nil && o.given && attempt == o.attempt+1 {
		return o
	}
	return nil
}

// executing reports whether a body is given out, or is to be before the run may stand
// still.
func (s *Steps) executing() bool {
	for _, o := range s.open {
		if o.given || o.unsure && o.queued {
			return true
		}
	}
	return false
}

// Owing returns the locations of steps with compensations that have not ended and whose
// bodies may have had an effect, the newest first. pending are the operations that a
// replay has not begun.
func (s *Steps) Owing(pending []*journal.Op) []location.Loc {
	var owing []*step
	for _, op := range pending {
		o, ok := op.Is.(*step)
		if ok && !o.Closed && !o.Settled() &&
			(o.unsure || o.mayHaveBegun() || s.permits.mayUse(o) || o.owes() && o.offered()) {
			owing = append(owing, o)
		}
	}
	for _, o := range s.open {
		if o.spec.Undo != nil && !o.Settled() && (o.unsure || o.busy && !o.queued || o.offered()) {
			owing = append(owing, o)
		}
	}
	slices.SortFunc(owing, func(a, b *step) int { return cmp.Compare(b.ID, a.ID) })
	places := make([]location.Loc, len(owing))
	for i, o := range owing {
		places[i] = o.Loc
	}
	return places
}

// Bodies yields the step bodies that may start now, each once; Complete reports its end.
//
// durable is the position of the journal up to which all is; hold keeps those from
// starting that may, except what a former activation may have begun.
func (s *Steps) Bodies(durable int64, hold bool) iter.Seq[Body] {
	return func(yield func(Body) bool) {
		for queue := &s.queue; queue.Len() > 0; {
			o := queue.Peek()
			if o.queued && o.barrier > durable {
				return
			}
			queue.Pop()
			if !o.queued || hold && !o.unsure {
				continue
			}
			o.queued, o.given = false, true
			if !yield(o.body()) {
				return
			}
		}
	}
}

func (o *step) body() Body {
	body := Body{
		ID: o.ID, Location: o.Loc, Attempt: o.attempt + 1, Func: o.spec.Func,
		Timeout: o.spec.Policy.Timeout, Detail: o.detail,
		Kind: o.spec.Kind, Limit: o.spec.Limit, steps: o.s, generation: o.Generation, born: o.Born,
		kind: o.Kind, owes: o.owes(), from: o.from, causes: o.causes,
		final: o.spec.Policy.Final, lead: o.lead, Resumed: journal.Resumed(o.J),
	}
	if o.permit != nil {
		body.Queue = o.permit.place.Queue
	}
	if overall := o.spec.Policy.Overall; overall > 0 {
		body.Deadline = o.Asked.Add(overall)
	}
	return body
}

// Cancels returns the IDs of bodies that were given out and are wanted no more.
func (s *Steps) Cancels() []int64 {
	cancels := s.cancels
	s.cancels = nil
	return cancels
}

// Complete takes the end of an attempt. Only the current attempt's is accepted.
func (s *Steps) Complete(id int64, attempt int, result *BodyResult) {
	if o := s.current(id, attempt); o != nil {
		o.given, o.ending = false, result
		s.ended.Push(attemptEnd{o, result})
		return
	}
	if o := s.cut[id]; o != nil && attempt == o.attempt+1 {
		if delete(s.cut, id); !result.Never && result.Started != 0 {
			o.cutOff(result)
		}
	}
}

// Heartbeat records what an attempt wants its successor to know, unless it is
// larger than a value may be. It reports whether the attempt is the current one.
func (s *Steps) Heartbeat(id int64, attempt int, detail []byte) bool {
	o := s.current(id, attempt)
	if o == nil {
		return false
	}
	if len(detail) > s.j.Limits.Value {
		s.owner.Note(o.Loc, "a heartbeat's detail is not recorded",
			fmt.Errorf("it has %d bytes, more than the limit of %d", len(detail), s.j.Limits.Value))
		return true
	}
	o.detail = detail
	o.writeProgress(0)
	return true
}

// Executing records that an attempt has been executing for some time, since started. What a
// body does in a transaction is left alone: it may hold the step's entry.
func (s *Steps) Executing(id int64, attempt int, started store.Time) {
	o := s.current(id, attempt)
	if o == nil || o.spec.Whole {
		return
	}
	if o.from == 0 {
		o.from = started
	}
	o.begun = started
	progress := o.s.progress
	o.writeProgress(0)
	o.s.progress = progress
}

// TakeProgress reports whether more was recorded of an open step, since it was called last, than
// that its body executes.
func (s *Steps) TakeProgress() bool {
	progress := s.progress
	s.progress = false
	return progress
}
