package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/fifo"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

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
	if n := len(value); n > r.j.Limits.Value {
		return &stored.Failure{Code: stored.CodeTooLarge, Message: fmt.Sprintf(
			"result of step %s has %d bytes, more than the limit of %d: store it elsewhere and return a reference", loc, n, r.j.Limits.Value)}
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

// steps are the steps and compensations of a live run whose attempts have not ended.
type steps struct {
	open     map[int64]*stepOp   // with a body waiting, running, or between attempts
	queue    fifo.Queue[*stepOp] // bodies that wait for the barrier
	inFlight int                 // bodies queued or given out and not closed
	cancels  []int64             // bodies that were given out and are wanted no more
	troubled []*stepOp           // whose failures request a pause
}

// enqueue lets a body wait until what was handed over so far is durable.
func (s *steps) enqueue(o *stepOp) {
	o.busy, o.queued, o.barrier = true, true, o.run.j.Pos()
	s.inFlight++
	s.queue.Push(o)
}

// settle notes that no body of the step is queued or under way any more.
func (s *steps) settle(o *stepOp) {
	if o.busy {
		o.busy, o.queued, o.given = false, false, false
		s.inFlight--
	}
}

// current returns the step whose body of an attempt is given out, or nil.
func (s *steps) current(id int64, attempt int) *stepOp {
	if o := s.open[id]; o != nil && o.given && attempt == o.attempt+1 {
		return o
	}
	return nil
}

// executing reports whether a body is given out.
func (s *steps) executing() bool {
	for _, o := range s.open {
		if o.given {
			return true
		}
	}
	return false
}

// Bodies returns the step bodies that may start now. Each is returned once; Complete
// reports its end.
func (r *Run) Bodies() []Body {
	var bodies []Body
	for queue := &r.steps.queue; queue.Len() > 0; {
		o := queue.Peek()
		if o.queued && o.barrier > r.turns.durable {
			break
		}
		queue.Pop()
		if !o.queued || r.over != nil || r.pause != nil {
			continue
		}
		o.queued, o.given = false, true
		bodies = append(bodies, o.body())
	}
	return bodies
}

func (o *stepOp) body() Body {
	body := Body{
		ID: o.ID, Location: o.Loc, Attempt: o.attempt + 1, Func: o.spec.Func,
		Timeout: o.spec.Policy.Timeout, Detail: o.detail, run: o.run, generation: o.Generation, born: o.Born,
		kind: o.Kind, owes: o.owes(), from: o.from,
	}
	if overall := o.spec.Policy.Overall; overall > 0 {
		body.Deadline = o.Asked.Add(overall)
	}
	return body
}

// Cancels returns the IDs of bodies that were given out and are wanted no more.
func (r *Run) Cancels() []int64 {
	cancels := r.steps.cancels
	r.steps.cancels = nil
	return cancels
}

// Complete takes the end of an attempt. Only the current attempt's is accepted.
func (r *Run) Complete(id int64, attempt int, result BodyResult) {
	if o := r.steps.current(id, attempt); o != nil {
		o.given = false
		r.arrivals.bodies.Push(ended{o, result})
	}
}

// Heartbeat records what an attempt wants its successor to know, unless it is
// larger than a value may be. It reports whether the attempt is the current one.
func (r *Run) Heartbeat(id int64, attempt int, detail []byte) bool {
	o := r.steps.current(id, attempt)
	if o == nil {
		return false
	}
	if len(detail) > r.j.Limits.Value {
		r.note(o.Loc, "a heartbeat's detail is not recorded",
			fmt.Errorf("it has %d bytes, more than the limit of %d", len(detail), r.j.Limits.Value))
		return true
	}
	o.detail = detail
	o.writeProgress(0)
	return true
}
