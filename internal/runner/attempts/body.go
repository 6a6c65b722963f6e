package attempts

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
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
	Queue    string        // whose permit the attempt has; "": it needs none
	Detail   []byte        // of the former attempt's last heartbeat; nil: none
	Kind     string        // of which a node executes at most Limit at a time; "": it has no such limit
	Limit    int
	Resumed  store.Time // as in journal.Journal
	Placed   store.Time // when it asked for a place to be executed in; set by the process that executes it

	steps      *Steps
	generation int
	born       int64
	kind       store.Kind
	owes       bool
	final      func(*stored.Failure) bool
	from       store.Time // when the first attempt started; 0: this is the first
	causes     []*stored.Failure
	lead       stored.Lead
}

// Entry returns the record of the step's success as the run will write it, but
// without its completion number, or the failure of a value that is too large. It is
// safe to call on any goroutine.
func (b *Body) Entry(started, ended store.Time, value []byte) (store.Entry, *stored.Failure) {
	if f := b.steps.tooLarge(b.Location, value); f != nil {
		return store.Entry{}, f
	}
	lead := b.lead
	if lead.Placed = b.Placed; b.Attempt > 1 || lead != (stored.Lead{}) {
		lead.Began = started
	}
	if b.from != 0 {
		started = b.from
	}
	notice := lead.Notice(lead.Began)
	return store.Entry{
		Loc: string(b.Location), Kind: b.kind, State: store.Done, Born: b.born, Attempt: b.Attempt,
		Owes: b.owes, Generation: b.generation, Started: started, Ended: ended, Wake: notice.Since(),
		Value: stored.WithTried(b.causes, notice, value),
	}, nil
}

// tooLarge returns the failure of a step's result that is too large, or nil.
func (s *Steps) tooLarge(loc location.Loc, value []byte) *stored.Failure {
	if n := len(value); n > s.j.Limits.Value {
		return &stored.Failure{Code: stored.CodeTooLarge, Message: fmt.Sprintf(
			"result of step %s has %d bytes, more than the limit of %d: store it elsewhere and return a reference",
			loc, n, s.j.Limits.Value)}
	}
	return nil
}

// Fails returns the end of an attempt that has failed by a timeout or a panic.
func (b *Body) Fails(f *stored.Failure) BodyResult {
	return BodyResult{Failure: f, Final: b.isFinal(f)}
}

func (b *Body) isFinal(f *stored.Failure) (final bool) {
	defer func() {
		if recover() != nil {
			final = false // the cause of the attempt's failure stays the one that is recorded
		}
	}()
	return b.final != nil && b.final(f)
}

// Name returns the name of the step; of a compensation "undo " and the name of its step.
func (b *Body) Name() string {
	if b.kind.Undoes() {
		name, _, _ := b.Location.Parent().Operation()
		return "undo " + name
	}
	name, _, _ := b.Location.Operation()
	return name
}

// Key returns the idempotency key of the step. It is safe to call on any
// goroutine.
func (b *Body) Key() string { return b.steps.Key(b.Location, b.generation) }

// BodyFunc executes a step. It runs outside the run's goroutines.
type BodyFunc func(ctx context.Context, body *Body) BodyResult

// BodyResult is the end of an attempt.
type BodyResult struct {
	Value   []byte
	Failure *stored.Failure
	Final   bool // a failure that must not be retried
	Marked  bool // of these: the body itself says so, also when its time is over
	Never   bool // a failure that is no attempt: the body has not begun
	// Undecodable is set with a failure whose cause is a recorded value that does not fit
	// the code.
	Undecodable *journal.Undecodable
	// Unrecorded is set with a failure if the body has succeeded and its result cannot be
	// recorded, or if a value cannot that it gives to the engine.
	Unrecorded bool
	After      time.Duration // of a failure: the shortest delay before the next attempt
	// Spent is how many units of its queue's rate the attempt has spent; nil: what it has
	// asked for.
	Spent   *int
	Started store.Time
	Ended   store.Time
	Placed  store.Time // when the body asked for a place to be executed in; 0: not known
	// Recorded is the step's entry if it is in the store already, written by the
	// body with Body.Entry, perhaps in a former attempt. Value is its value.
	Recorded *store.Entry
}
