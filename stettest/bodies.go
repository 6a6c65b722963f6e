package stettest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/steps"
)

// Body is executed in place of a step's function. The step returns its value, which
// must fit the step's type: otherwise the step fails for good, like one whose result
// cannot be decoded. ctx is the step's: stet.Attempt, stet.IdempotencyKey and
// stet.StepOf work with it.
type Body func(ctx context.Context) (any, error)

// Own is the step's own function, for Sequence.
var Own Body = func(context.Context) (any, error) { return nil, errOwn }

// ownError marks the body Own.
type ownError struct{}

func (ownError) Error() string { return "stettest.Own is for Replace" }

var errOwn error = ownError{}

// Returns is a body that returns the value.
func Returns(value any) Body { return func(context.Context) (any, error) { return value, nil } }

// Fails is a body that fails with the error, each time.
func Fails(err error) Body { return func(context.Context) (any, error) { return nil, err } }

// Hangs is a body that returns only when its context ends: at the step's timeout,
// at a cancel.
func Hangs() Body {
	return func(ctx context.Context) (any, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
}

// Takes is a body that takes d of virtual time before the next one begins.
func Takes(d time.Duration, next Body) Body {
	return func(ctx context.Context) (any, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return next(ctx)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Sequence is a body that executes each attempt by the next of the bodies, and all
// further attempts by the last one.
func Sequence(bodies ...Body) Body {
	return func(ctx context.Context) (any, error) {
		return bodies[min(max(stet.Attempt(ctx), 1), len(bodies))-1](ctx)
	}
}

// bodies executes step bodies in a known order, replaced or not, and counts them.
type bodies struct {
	wrap  aroundFunc                                 // the user's; nil: none
	began func(context.Context, stet.StepInfo) error // its error is the attempt's; nil: none
	order order

	running sync.WaitGroup // bodies that have begun, or wait to

	mu       sync.Mutex
	replaced map[string]Body // by the text of a name or location
	outside  map[string]bool
	gate     *gate
	calls    map[string]int // attempts by location
	names    map[string]int // attempts by name
	endless  string         // says which step has used up maxAttempts; "": none
}

// aroundFunc is the type of Config.Around.
type aroundFunc = func(context.Context, stet.StepInfo, func(context.Context) error) error

func newBodies(wrap aroundFunc) *bodies {
	return &bodies{
		wrap: wrap, order: order{wake: make(chan struct{}, 1)},
		replaced: map[string]Body{}, outside: map[string]bool{},
		calls: map[string]int{}, names: map[string]int{},
	}
}

// around is Config.Around.
func (b *bodies) around(ctx context.Context, step stet.StepInfo, next func(context.Context) error) error {
	b.running.Add(1)
	defer b.running.Done()
	if err := b.order.wait(ctx, step); err != nil {
		return err
	}
	name := nameOf(step.Location)
	b.mu.Lock()
	b.calls[step.Location]++
	b.names[name]++
	body, outside := b.find(step.Location, name)
	b.mu.Unlock()
	if b.began != nil {
		if err := b.began(ctx, step); err != nil {
			return err
		}
	}
	call := next
	if body != nil {
		call = func(ctx context.Context) error {
			value, err := body(ctx)
			if err == errOwn {
				return next(ctx)
			}
			if err == nil {
				steps.AttemptOf(ctx).Replace(value)
			}
			return err
		}
	}
	if outside {
		inner := call
		call = func(ctx context.Context) error { return b.gate.call(ctx, inner) }
	}
	if b.wrap != nil {
		inner := call
		call = func(ctx context.Context) error { return b.wrap(ctx, step, inner) }
	}
	err := call(ctx)
	if err != nil && step.Attempt >= maxAttempts {
		err = fmt.Errorf("stettest: the step %s has failed %d times in a row; give it Retry.Attempts, mark the error with "+
			"Permanent, or let it succeed: %w", step.Location, step.Attempt, err)
		b.mu.Lock()
		b.endless = cmp.Or(b.endless, err.Error())
		b.mu.Unlock()
		err = stet.Permanent(err)
	}
	return err
}

// maxAttempts bounds the attempts of a step under virtual time. By default a step is tried
// without limit, and virtual time that nothing ends takes real time.
const maxAttempts = 10_000

// failsEndlessly returns what is wrong if a step has used up maxAttempts; "": none has.
func (b *bodies) failsEndlessly() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.endless
}

// find returns what is set for a step, by its location or otherwise by its name.
func (b *bodies) find(loc, name string) (body Body, outside bool) {
	body, ok := b.replaced[loc]
	if !ok {
		body = b.replaced[name]
	}
	return body, b.outside[loc] || b.outside[name]
}

// count returns the attempts of a step, given by its location or name.
func (b *bodies) count(step string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := keyOf(step)
	if n := b.calls[key]; n > 0 {
		return n
	}
	return b.names[key]
}

// nameOf returns the text of a step's name: the last one in the location, without
// key and occurrence.
func nameOf(loc string) string {
	parts := strings.Split(loc, "/")
	for len(parts) > 1 && strings.HasPrefix(parts[len(parts)-1], "[") {
		parts = parts[:len(parts)-1]
	}
	name, _, _ := strings.Cut(parts[len(parts)-1], "#")
	return name
}

// keyOf returns the key in the maps of bodies of a step that is given by its location
// or its name.
func keyOf(step string) string {
	if l, err := location.Parse(step); err == nil {
		return l.String()
	}
	return location.Loc("").Name(step, 1).String() // a name with special characters
}

// order lets bodies begin one at a time: when nothing else runs, the first by
// run, location and attempt.
type order struct {
	wake chan struct{} // capacity 1: a body waits

	mu      sync.Mutex
	waiting []waiter
	begun   time.Time // when the last one began
}

type waiter struct {
	step  stet.StepInfo
	begin chan struct{}
}

// wait returns when the body may begin.
func (o *order) wait(ctx context.Context, step stet.StepInfo) error {
	w := waiter{step, make(chan struct{})}
	o.mu.Lock()
	o.waiting = append(o.waiting, w)
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default: // it is awake already
	}
	select {
	case <-w.begin:
		return nil
	case <-ctx.Done():
		o.mu.Lock()
		defer o.mu.Unlock()
		o.waiting = slices.DeleteFunc(o.waiting, func(x waiter) bool { return x.begin == w.begin })
		return context.Cause(ctx)
	}
}

// busy reports whether a body waits for its turn, or has begun at this instant.
func (o *order) busy() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting) > 0 || o.begun.Equal(time.Now())
}

// byStep orders bodies by run, location and attempt.
func byStep(a, b waiter) int {
	return cmp.Or(
		strings.Compare(a.step.RunID, b.step.RunID),
		strings.Compare(a.step.Location, b.step.Location),
		cmp.Compare(a.step.Attempt, b.step.Attempt),
	)
}

// run lets bodies begin until ctx ends. A nanosecond of virtual time has passed
// only when all goroutines wait for something.
func (o *order) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		for {
			time.Sleep(time.Nanosecond)
			o.mu.Lock()
			if len(o.waiting) == 0 {
				o.mu.Unlock()
				break
			}
			first := slices.MinFunc(o.waiting, byStep)
			o.waiting = slices.DeleteFunc(o.waiting, func(x waiter) bool { return x.begin == first.begin })
			o.begun = time.Now()
			o.mu.Unlock()
			close(first.begin)
		}
	}
}
