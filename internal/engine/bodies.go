package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
)

// ErrStepTimeout is the cause with which the context of a body ends at its
// timeout.
var ErrStepTimeout = errors.New("step timeout")

// body is a step body that was given out.
type body struct {
	runner.Body
	h      *ownership.Shard
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// bodyEnd is the end of an attempt.
type bodyEnd struct {
	id      int64
	attempt int
	result  runner.BodyResult
}

// heartbeat is what an attempt wants its successor to know.
type heartbeat struct {
	id      int64
	attempt int
	detail  []byte
}

// crew executes bodies, at most max at once; the others wait in order. A
// goroutine that has executed one takes the next that waits.
type crew struct {
	max int

	mu      sync.Mutex
	running map[*body]string // and the runs they belong to
	waiting []job
	stopped bool
	drained chan struct{} // closed when stopped and nothing runs
}

// job is a body to be executed.
type job struct {
	body *body
	run  *activation
}

// errUnwanted is the cause with which the run itself cancels a body.
var errUnwanted = fmt.Errorf("the step is not wanted any more: %w", context.Canceled)

// sequel is what is left to do after a body. It may return another body that is
// to be executed on the same goroutine.
type sequel func() *job

func newCrew(max int) *crew {
	return &crew{max: max, running: map[*body]string{}, drained: make(chan struct{})}
}

// start executes a body on another goroutine as soon as there is room.
func (c *crew) start(j job) {
	if c.admit(j) {
		go c.work(j)
	}
}

// admit reports whether the caller is to execute the body now.
func (c *crew) admit(j job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.stopped:
		return false
	case len(c.running) < c.max:
		c.running[j.body] = j.run.id
		return true
	}
	c.waiting = append(c.waiting, j)
	return false
}

// work executes an admitted body, then those that wait and those that follow.
func (c *crew) work(j job) {
	for {
		then := c.execute(j)
		next, more := c.done(j.body)
		switch {
		case more && then != nil:
			go c.follow(then)
		case more:
		case then == nil:
			return
		default:
			following := then()
			if following == nil || !c.admit(*following) {
				return
			}
			next = *following
		}
		j = next
	}
}

// follow does what is left after a body, and what comes of it.
func (c *crew) follow(then sequel) {
	if j := then(); j != nil && c.admit(*j) {
		c.work(*j)
	}
}

// execute executes a body. One that ends its goroutine is made up for by another
// goroutine.
func (c *crew) execute(j job) (then sequel) {
	switch {
	case j.body.h.Draining(): // it begins where the shard goes
		return nil
	case j.body.ctx.Err() == nil:
	case errors.Is(context.Cause(j.body.ctx), errUnwanted):
		return j.run.decline(j.body)
	default:
		return nil
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		if next, more := c.done(j.body); more {
			go c.work(next)
		}
	}()
	then = j.run.execute(j.body)
	returned = true
	return then
}

// done says that a body has ended. It returns the next one that waits.
func (c *crew) done(b *body) (next job, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, b)
	if len(c.waiting) > 0 && !c.stopped {
		next = c.waiting[0]
		c.waiting[0] = job{}
		c.waiting = c.waiting[1:]
		c.running[next.body] = next.run.id
		return next, true
	}
	if c.stopped && len(c.running) == 0 {
		c.closeDrained()
	}
	return job{}, false
}

// stop starts nothing more. The returned channel is closed when no body runs.
func (c *crew) stop() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.waiting = nil
	if len(c.running) == 0 {
		c.closeDrained()
	}
	return c.drained
}

func (c *crew) closeDrained() {
	select {
	case <-c.drained:
	default:
		close(c.drained)
	}
}

// cancelAll cancels the bodies that run and returns where they stand.
func (c *crew) cancelAll() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var places []string
	for b, runID := range c.running {
		b.cancel(context.Canceled)
		places = append(places, fmt.Sprintf("run %s step %s", runID, b.Location))
	}
	return places
}

// working notes the holdings of which bodies run.
func (c *crew) working(in map[*ownership.Shard]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for b := range c.running {
		in[b.h] = true
	}
}

// places returns where the bodies of holdings stand that run.
func (c *crew) places(holdings []*ownership.Shard) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var places []string
	for b, runID := range c.running {
		if slices.Contains(holdings, b.h) {
			places = append(places, fmt.Sprintf("run %s step %s", runID, b.Location))
		}
	}
	return places
}

// start has a body executed. Its context ends with the tenure, a cancel, or its
// timeout, at which the attempt has failed whether the body returns or not. The
// last one that is started is left to the driver, who executes it if nothing else
// is to be done.
func (a *activation) start(rb runner.Body) {
	ctx, cancel := context.WithCancelCause(a.h.Context())
	b := &body{Body: rb, h: a.h, ctx: ctx, cancel: cancel}
	a.bodies[b.ID] = b
	a.startNext()
	a.next = &job{b, a}
}

// decline tells the run that a body has not begun: of a step that must be seen to
// its end it wants to know.
func (a *activation) decline(b *body) (then sequel) {
	now := a.t.e.time.now()
	if a.postHere(event{ended: &bodyEnd{b.ID, b.Attempt, runner.NeverBegun(now)}}) {
		return a.drive
	}
	return nil
}

// startNext has the body that was left to the driver executed elsewhere.
func (a *activation) startNext() {
	if j := a.next; j != nil {
		a.next = nil
		a.t.crew.start(*j)
	}
}

// execution is an attempt whose body is being called. Nearly every step has one, so
// that it is one piece of memory.
type execution struct {
	Attempt
	a *activation
	b *body

	limit   *deadline
	told    atomic.Bool // its end is known
	settled atomic.Bool // its time was over, or is not over any more
}

// execute calls the body. It returns what is left to do on the goroutine: to
// drive the run on, if nobody does.
func (a *activation) execute(b *body) (then sequel) {
	defer b.cancel(nil)
	x := &execution{a: a, b: b, Attempt: Attempt{
		RunID: a.id, Workflow: a.run.Workflow, Number: b.Attempt, Detail: b.Detail, Headers: a.run.Headers, body: &b.Body,
		engine: a.t.e, run: &a.run, lease: a.h.Lease(), started: a.t.e.time.now(),
	}}
	x.execution = x
	if b.Timeout != 0 || b.Deadline != 0 {
		x.limit = newDeadline(a.t.e, b, x.started, x.expire)
		defer x.limit.stop()
	}
	// A body that ends its goroutine leaves nobody to drive the run on.
	returned := false
	defer func() {
		if !returned && x.ends(runner.BodyResult{Failure: &runner.Failure{Code: runner.CodePanic, Message: "the step called runtime.Goexit"}}) {
			go a.driveOn()
		}
	}()
	result := call(&attempted{b.ctx, &x.Attempt}, &b.Body)
	returned = true
	if x.ends(result) {
		return a.drive
	}
	return nil
}

// ends tells the run how the attempt has ended, unless that is known. It reports
// whether the caller has to see to it that the run is driven on.
func (x *execution) ends(result runner.BodyResult) bool {
	if x.told.Swap(true) {
		return false
	}
	result.Started, result.Ended = x.started, x.engine.time.now()
	return x.a.postHere(event{ended: &bodyEnd{x.b.ID, x.b.Attempt, result}})
}

// expire ends the attempt whether the body returns or not, unless it has settled.
func (x *execution) expire(f *runner.Failure) {
	if x.settled.Swap(true) {
		return
	}
	x.b.cancel(ErrStepTimeout)
	if x.ends(runner.BodyResult{Failure: f}) {
		go x.a.driveOn()
	}
}

// beat renews the attempt's timeout, and has detail recorded if it is not nil.
func (x *execution) beat(detail []byte) {
	x.limit.renew()
	if detail != nil {
		x.a.post(event{heartbeat: &heartbeat{x.b.ID, x.b.Attempt, detail}})
	}
}

// attempted is the context of a body.
type attempted struct {
	context.Context
	attempt *Attempt
}

func (c *attempted) Value(key any) any {
	if key == (attemptKey{}) {
		return c.attempt
	}
	return c.Context.Value(key)
}

// call calls the body and turns a panic into a failure.
func call(ctx context.Context, b *runner.Body) (result runner.BodyResult) {
	defer func() {
		if p := recover(); p != nil {
			result = runner.BodyResult{Failure: runner.PanicFailure(p)}
		}
	}()
	return b.Func(ctx, b)
}

// deadline ends an attempt that takes too long; a nil one never does.
type deadline struct {
	mu      sync.Mutex
	timer   *time.Timer // nil: no limit
	timeout time.Duration
	overall time.Time // zero: none
}

func newDeadline(e *Engine, b *body, now store.Time, expire func(*runner.Failure)) *deadline {
	d := &deadline{timeout: b.Timeout}
	if b.Deadline != 0 {
		d.overall = time.Now().Add(max(b.Deadline.Sub(now), 0))
	}
	d.timer = time.AfterFunc(d.left(), func() {
		text := fmt.Sprintf("attempt %d took longer than %s", b.Attempt, b.Timeout)
		if b.Deadline != 0 && e.time.now() >= b.Deadline {
			text = fmt.Sprintf("attempt %d was still running when the time for all attempts was over", b.Attempt)
		}
		expire(&runner.Failure{Code: runner.CodeTimeout, Message: text})
	})
	return d
}

func (d *deadline) left() time.Duration {
	left := d.timeout
	if !d.overall.IsZero() {
		if until := time.Until(d.overall); left == 0 || until < left {
			left = max(until, 0)
		}
	}
	return left
}

// renew gives the attempt its timeout anew.
func (d *deadline) renew() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && d.timer.Stop() {
		d.timer.Reset(d.left())
	}
}

func (d *deadline) stop() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
}

type attemptKey struct{}

// Attempt is what the context of a step body carries.
type Attempt struct {
	RunID    string
	Workflow string
	Number   int
	Detail   []byte // of the former attempt's last heartbeat; nil: none
	Headers  []byte // of the run; nil: none

	body *runner.Body

	engine  *Engine
	run     *store.Run
	lease   store.Lease
	started store.Time

	execution *execution
	silent    bool    // a heartbeat does nothing
	outcome   outcome // of the execution's own Attempt

	mu   sync.Mutex
	last time.Time // when a detail was recorded
}

// outcome is a value that stands for what the body would have returned.
type outcome struct {
	set   bool
	value any
}

// Replace has the attempt succeed with value although the body was not called.
// It is called before the attempt ends, by whoever stands around the body.
func (a *Attempt) Replace(value any) { a.execution.outcome = outcome{true, value} }

// Replaced returns the value that was given to Replace.
func (a *Attempt) Replaced() (value any, ok bool) {
	o := &a.execution.outcome
	return o.value, o.set
}

// settle says that the attempt's time is not over from now on. It reports false if it
// was.
func (a *Attempt) settle() bool { return !a.execution.settled.Swap(true) }

// WithoutHeartbeat returns a context of the same attempt in which a heartbeat
// does nothing.
func WithoutHeartbeat(ctx context.Context) context.Context {
	a := AttemptOf(ctx)
	if a == nil {
		return ctx
	}
	return context.WithValue(ctx, attemptKey{}, &Attempt{
		RunID: a.RunID, Workflow: a.Workflow, Number: a.Number, Detail: a.Detail, body: a.body,
		silent: true, execution: a.execution, engine: a.engine, run: a.run, lease: a.lease, started: a.started,
	})
}

// AttemptOf returns the attempt that ctx belongs to, or nil.
func AttemptOf(ctx context.Context) *Attempt {
	a, _ := ctx.Value(attemptKey{}).(*Attempt)
	return a
}

// Location returns the text form of the step's location.
func (a *Attempt) Location() string { return a.body.Location.String() }

// Key returns the step's idempotency key.
func (a *Attempt) Key() string { return a.body.Key() }

// Heartbeat renews the attempt's timeout and has detail recorded, at most once a
// second.
func (a *Attempt) Heartbeat(detail []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); detail != nil && now.Sub(a.last) < time.Second {
		detail = nil
	} else if detail != nil {
		a.last = now
	}
	if !a.silent {
		a.execution.beat(detail)
	}
}

// branchStacks cuts from a dump of all goroutines those that execute workflow
// code and are not parked.
func branchStacks(dump []byte) string {
	var stacks [][]byte
	for g := range bytes.SplitSeq(dump, []byte("\n\n")) {
		head, _, _ := bytes.Cut(g, []byte("\n"))
		if bytes.Contains(g, []byte("runner.(*Branch).main")) && !bytes.Contains(head, []byte("chan receive")) {
			stacks = append(stacks, g)
		}
	}
	return string(bytes.Join(stacks, []byte("\n\n")))
}
