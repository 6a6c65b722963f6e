package steps

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// ErrTimeout is the cause with which the context of a body ends at its timeout.
var ErrTimeout = errors.New("step timeout")

// ErrUnwanted is the cause with which the run itself cancels a body.
var ErrUnwanted = fmt.Errorf("the step is not wanted any more: %w", context.Canceled)

// Run is the run of an attempt, as the attempt sees it.
type Run interface {
	// Leaving reports whether this process is giving the run up: no body of it begins
	// here. If the process keeps the run after all, it starts the attempt again.
	Leaving(*Attempt) bool
	// Ended delivers the end of an attempt, which keeps its place in the pool until the run
	// releases it: when the outcome is durable, or will not be. If drive is not nil nobody
	// drives the run: the caller calls it at once, on any goroutine. It returns a task that
	// follows. The run owns the End.
	Ended(*End) (drive func() Task)
	// Beat delivers the detail of a heartbeat.
	Beat(Heartbeat)
	// Emit delivers items for streams, before the end of the attempt.
	Emit(Emission)
}

// End is the end of an attempt.
type End struct {
	ID      int64 // of the operation
	Attempt int
	Result  runner.BodyResult
	Place   Task // to be released
}

// Heartbeat is what an attempt wants its successor to know, or that it has been executing
// for some time.
type Heartbeat struct {
	ID      int64 // of the operation
	Attempt int
	Detail  []byte
	Started store.Time // when the body began; 0: it is a heartbeat of the body
}

// Env is what the attempts of a process have in common.
type Env struct {
	Node string // the name of the process
	Pool *Pool
	Now  func() store.Time // a lower bound of the store's time
	// ParentID returns the ID of the parent of a child; "": it is not known here. nil: none is.
	ParentID func(child, parent store.RunNo) string
	Payloads *payload.Policy // of what is stored; nil: values are stored as they are
	// WarnStep is how long a body may execute without a heartbeat before that is logged;
	// then after twice the time, and so on. 0: never.
	WarnStep time.Duration
	// Observe is called before the body of an attempt, and returns the context of the body and
	// a function that is called with the attempt's end, once: when the body has returned or
	// its time is over. nil: nothing observes. Of an attempt that this process has ended,
	// because it stops or gives the run away, the end is ErrStopped.
	Observe func(context.Context, *Attempt) (context.Context, func(*stored.Failure))
}

// ErrStopped is the end of an attempt that says nothing of the step: the process has cancelled
// the body, and it is executed again as after a crash.
var ErrStopped = &stored.Failure{Code: stored.CodeCancelled, Message: "the process stops, or gives the run away"}

// Activation is shared by the attempts of one activation of a run.
type Activation struct {
	RunID    string
	Workflow string
	Headers  []byte // of the run; nil: none
	Run      Run

	env         *Env
	parent      context.Context // the contexts of bodies end with it
	child       stored.Child    // of the run
	no          store.RunNo
	incarnation int
	generation  int        // of the run
	first       store.Seed // of its first incarnation
	lease       store.Lease
}

// Attempt is one attempt of a step: a [Task], and what the context of the body
// carries. Nearly every step has one, so that it is one piece of memory.
type Attempt struct {
	Place
	*Activation

	body        runner.Body
	ending      ending // of the context of the body
	started     store.Time
	end         End
	limit       *deadline
	ended       atomic.Bool                    // its end was delivered
	settled     atomic.Bool                    // its time was over, or does not end it any more
	timeout     atomic.Pointer[stored.Failure] // set before its context ends by it
	replacement replacement                    // written and read by what stands around the body
	observed    func(*stored.Failure)          // set before the body begins; nil: nothing observes

	spent atomic.Pointer[int] // what Spend was given last; nil: nothing

	mu       sync.Mutex
	detailed time.Time // when a detail was delivered last
	detail   []byte    // that was not delivered yet; nil: none
	beaten   time.Time // last heartbeat

	emitter atomic.Pointer[emitter] // nil: nothing was emitted; set under mu
}

// replacement is a value that stands for the one that the body would have returned.
type replacement struct {
	set   bool
	value any
}

// Activation returns what the attempts of an activation share. row is the run as it is stored, lease the one that its
// attempts have. The contexts of bodies end with ctx.
func (e *Env) Activation(ctx context.Context, run Run, row *store.Run, lease store.Lease) *Activation {
	return &Activation{
		RunID: row.ID, Workflow: row.Workflow, Headers: stored.Headers(row.Headers), Run: run,
		env: e, parent: ctx, child: stored.ChildOf(row), no: row.No, incarnation: row.Incarnation,
		generation: row.Generation, first: row.FirstSeed(), lease: lease,
	}
}

// NewAttempt returns the attempt that calls the body. The context of the body ends with the
// context of the run, by Cancel, and at its timeout.
func (c *Activation) NewAttempt(b runner.Body) *Attempt {
	a := &Attempt{Activation: c, body: b}
	a.body.Placed = c.env.Now()
	return a
}

// Cancel ends the context of the body.
func (a *Attempt) Cancel(cause error) { a.Cut(cause) }

// Cut ends the context of the body. It returns when the body began; 0: it has not, and does not begin any more.
func (a *Attempt) Cut(cause error) (began store.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancel(cause)
	return a.started
}

// context returns the context of the body.
func (a *Attempt) context() context.Context { return (*bodyContext)(a) }

// cancel ends the context of the body.
func (a *Attempt) cancel(cause error) { a.ending.cancel(a.parent, cause) }

// begin notes that the body begins now. It reports false if it must not begin any more.
func (a *Attempt) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.context().Err() != nil {
		return false
	}
	a.started = a.env.Now()
	return true
}

// Limit implements Limited.
func (a *Attempt) Limit() (kind string, limit int) { return a.body.Kind, a.body.Limit }

// Party implements Shared: workflows share the places.
func (a *Attempt) Party() string { return a.Workflow }

func (a *Attempt) String() string { return fmt.Sprintf("run %s step %s", a.RunID, a.body.Location) }

// Execute calls the body, unless the attempt must not begin any more. next drives the
// run on, if nobody else does.
func (a *Attempt) Execute() (next func() Task) {
	switch {
	case a.Run.Leaving(a): // it begins where the shard goes
		return nil
	case a.begin():
		return a.execute()
	case errors.Is(context.Cause(a.context()), ErrUnwanted):
		// Of a step whose end must be known the run waits for this.
		return a.deliver(runner.NeverBegun(a.env.Now()))
	}
	return nil
}

func (a *Attempt) execute() (next func() Task) {
	defer a.cancel(nil)
	ctx := a.context()
	if a.env.Observe != nil {
		ctx, a.observed = a.env.Observe(ctx, a)
	}
	if a.body.Timeout != 0 || a.body.Deadline != 0 {
		a.limit = newDeadline(&a.body, a.started, a.env.Now, a.expire)
		defer a.limit.stop()
	}
	// A body that ends its goroutine leaves nobody to drive the run on.
	returned := false
	defer func() {
		if !returned {
			f := &stored.Failure{Code: stored.CodePanic, Message: "the step called runtime.Goexit"}
			a.driveElsewhere(a.finish(a.body.Fails(f)))
		}
	}()
	result := call(ctx, &a.body)
	returned = true
	return a.finish(result)
}

// call calls the body and turns a panic into a failure.
func call(ctx context.Context, b *runner.Body) (result runner.BodyResult) {
	defer func() {
		if p := recover(); p != nil {
			result = b.Fails(stored.PanicFailure(p))
		}
	}()
	return b.Func(ctx, b)
}

// finish delivers the end of an attempt that has begun, unless one was delivered.
func (a *Attempt) finish(result runner.BodyResult) (drive func() Task) {
	if a.ended.Swap(true) {
		return nil
	}
	if f := a.timeout.Load(); f != nil && !result.Marked {
		result = a.body.Fails(f)
	}
	a.endEmitter()
	if result.Failure != nil {
		a.tellDetail()
	}
	if result.Failure != nil && a.stopped() { // whatever it says of itself
		a.observe(ErrStopped)
		return nil
	}
	a.observe(result.Failure)
	result.Started, result.Ended, result.Spent = a.started, a.env.Now(), a.spent.Load()
	result.Placed = a.body.Placed
	return a.deliver(result)
}

// observe reports the end of the attempt.
func (a *Attempt) observe(end *stored.Failure) {
	if a.observed != nil {
		a.observed(end)
	}
}

// stopped reports whether the process has cancelled the body, because it stops or gives the
// shard away: an error then says nothing of the step, which is executed again elsewhere as
// after a crash.
func (a *Attempt) stopped() bool {
	cause := context.Cause(a.context())
	return cause != nil && !errors.Is(cause, ErrUnwanted) && !errors.Is(cause, ErrTimeout)
}

func (a *Attempt) deliver(result runner.BodyResult) (drive func() Task) {
	a.env.Pool.Keep(a)
	a.end = End{a.body.ID, a.body.Attempt, result, a}
	return a.Run.Ended(&a.end)
}

// grace is how long an attempt whose time is over waits for the error of its body, which
// may say that no other one is to follow.
const grace = 100 * time.Millisecond

// expire ends the attempt, unless it has settled: when the body returns, or after the grace.
func (a *Attempt) expire(f *stored.Failure) {
	if a.settled.Swap(true) {
		return
	}
	a.timeout.Store(f)
	a.cancel(ErrTimeout)
	time.AfterFunc(grace, func() { a.driveElsewhere(a.finish(runner.BodyResult{Failure: f})) })
}

// driveElsewhere makes another goroutine drive the run, if nobody drives it.
func (a *Attempt) driveElsewhere(drive func() Task) {
	if drive != nil {
		a.env.Pool.Follow(drive)
	}
}

// settle stops the attempt's timeout. It reports false if the timeout has already ended
// the attempt.
func (a *Attempt) settle() bool { return !a.settled.Swap(true) }

// Replace makes the attempt succeed with value although the body was not called. It is
// called before the attempt ends, by the code around the body.
func (a *Attempt) Replace(value any) { a.replacement = replacement{true, value} }

// Replaced returns the value that was given to Replace.
func (a *Attempt) Replaced() (value any, ok bool) { return a.replacement.value, a.replacement.set }

// Spend notes how many units of its queue's rate the attempt has spent.
func (a *Attempt) Spend(units int) { a.spent.Store(&units) }

// Node returns the name of the process that executes it.
func (a *Attempt) Node() string { return a.env.Node }

// Number returns the attempt's number, from 1.
func (a *Attempt) Number() int { return a.body.Attempt }

// Detail returns that of the former attempt's last heartbeat; nil: none.
func (a *Attempt) Detail() []byte { return a.body.Detail }

// Location returns the text form of the step's location.
func (a *Attempt) Location() string { return a.body.Location.String() }

// Name returns the name of the step without the scopes that it stands in, its key and its
// occurrence. That of a compensation is "undo " and the name of its step.
func (a *Attempt) Name() string { return a.body.Name() }

// RunKey returns what [stored.RunKey] does for the run.
func (a *Attempt) RunKey() [16]byte { return stored.RunKey(a.first, a.generation) }

// Resumed returns when the run has last gone on after a long pause; 0: it has had none.
func (a *Attempt) Resumed() store.Time { return a.body.Resumed }

// Key returns the step's idempotency key.
func (a *Attempt) Key() string { return a.body.Key() }

// beat renews the attempt's timeout and delivers detail, once a second: a detail that comes sooner
// waits, and the next one takes its place. nil: there is none.
func (a *Attempt) beat(detail []byte) {
	a.mu.Lock()
	a.limit.renew()
	a.beaten = time.Now()
	wait := time.Duration(0)
	if detail != nil {
		if wait = time.Second - a.beaten.Sub(a.detailed); wait > 0 && a.detail == nil {
			time.AfterFunc(wait, a.tellDetail)
		}
		a.detail = detail
	}
	a.mu.Unlock()
	if wait <= 0 {
		a.tellDetail()
	}
}

// tellDetail delivers the detail that waits, if one does.
func (a *Attempt) tellDetail() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.detail == nil {
		return
	}
	a.Run.Beat(Heartbeat{ID: a.body.ID, Attempt: a.body.Attempt, Detail: a.detail})
	a.detail, a.detailed = nil, time.Now()
}
