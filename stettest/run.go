package stettest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// Horizon is how much virtual time a test may take. By then nothing happens any more
// that could end it: the test fails and says what its runs wait for.
const Horizon = 100 * 365 * 24 * time.Hour

// maxVirtual bounds the intervals of an engine under virtual time, so that
// looking again for what cannot have changed takes no time.
const maxVirtual = Horizon / 5

// Env is a test under virtual time with an engine that runs. Its methods are safe
// for concurrent use.
type Env struct {
	// Engine executes the runs of the test.
	Engine *stet.Engine
	// Store holds them.
	Store store.Store

	t      *testing.T
	begun  time.Time
	ctx    context.Context
	bodies *bodies
	acting chan struct{} // capacity 1: holds an element while an act is about to begin
	acted  time.Time     // when the last one began; of the goroutine whose element is in acting

	mu      sync.Mutex
	later   sync.WaitGroup
	acts    int // calls of At
	stopped bool
}

// Run calls fn in a bubble of testing/synctest with an engine that executes the
// workflows of cfg under virtual time, and stops the engine when fn returns. The
// t of fn is the bubble's: it has no Run and no Parallel. Anything else of the
// test, subtests for example, stands around Run.
//
// The Store of cfg must be nil: the test has a new one in memory. All other fields that
// cfg leaves at zero get the engine's defaults, except these:
//   - Poll, LeaseTTL and Renew, which only guard against lost hints and dead processes,
//     are so long that they play no part.
//   - Sweep is a month.
//   - Nothing is logged.
//
// A step whose first 10,000 attempts fail is not tried again, and fails with a message that
// says so.
//
// Runs get the same seeds each time, so all that they derive, such as random numbers and
// jitter, is the same.
func Run(t *testing.T, cfg stet.Config, fn func(t *testing.T, env *Env)) {
	t.Helper()
	gate, stop := newGate()
	defer stop()
	synctest.Test(t, func(t *testing.T) {
		if cfg.Store != nil {
			t.Fatal("stettest.Run: expected a Config without a Store, found one: it was opened outside of the bubble")
		}
		env := &Env{t: t, begun: time.Now(), bodies: newBodies(cfg.Around), acting: make(chan struct{}, 1)}
		env.bodies.gate = gate
		env.Store = newWorld().join(memory.New())
		virtual(&cfg, maxVirtual)
		cfg.Store, cfg.Around = env.Store, env.bodies.around
		var err error
		if env.Engine, err = stet.New(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		env.ctx = ctx
		ended := make(chan error, 1)
		ordered := make(chan struct{})
		go func() { ended <- env.Engine.Run(ctx) }()
		ordering, stopOrder := context.WithCancel(context.Background())
		go func() { env.bodies.order.run(ordering); close(ordered) }()
		horizon := time.AfterFunc(Horizon, env.stuck)
		defer func() {
			horizon.Stop()
			env.mu.Lock()
			env.stopped = true
			env.mu.Unlock()
			cancel()
			env.later.Wait()
			if err := <-ended; err != nil && !t.Failed() {
				t.Errorf("the engine has ended with: %v", err)
			}
			stopOrder()
			<-ordered
			env.bodies.running.Wait()
		}()
		fn(t, env)
	})
}

// virtual sets the fields that are zero as virtual time requires.
func virtual(cfg *stet.Config, longest time.Duration) {
	set := func(field *time.Duration, value time.Duration) {
		if *field == 0 {
			*field = value
		}
	}
	set(&cfg.LeaseTTL, longest)
	set(&cfg.Renew, cfg.LeaseTTL/3)
	set(&cfg.Poll, longest)
	set(&cfg.Sweep, maxCrashInterval)
	set(&cfg.Grace, longest)
	if cfg.Node == "" {
		cfg.Node = "test"
	}
	if cfg.Build == "" {
		cfg.Build = "test"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
}

// stuck fails the test, says what its runs wait for, and closes the store, which ends
// all that waits for it.
func (e *Env) stuck() {
	var text strings.Builder
	runs, _, err := e.Engine.Runs().List(context.Background(), store.Filter{Values: true, Limit: 20, Statuses: live})
	for _, info := range runs {
		fmt.Fprintf(&text, "\n%s: %s", info.ID, info.Status)
		for _, w := range info.WaitsFor {
			fmt.Fprintf(&text, ", waits for %s %s %s", w.Kind, w.Location, strings.Join(w.Names, " "))
		}
	}
	if err != nil {
		text.WriteString("\n" + err.Error())
	}
	e.t.Errorf("%v of virtual time have passed without an end of the test; the live runs are:%s", Horizon, &text)
	if err := e.Store.Close(); err != nil {
		e.t.Error(err)
	}
}

var live = []store.Status{store.Queued, store.Running, store.Suspended, store.Stalled}

// Elapsed returns how much virtual time has passed since the test began. Each
// step body takes a nanosecond beside what it takes itself.
func (e *Env) Elapsed() time.Duration { return time.Since(e.begun) }

// At calls act when so much virtual time has passed since the test began, or at once if
// it has passed already, unless the test ends before. At does not block. An error of act
// fails the test.
//
// Acts of one instant follow one another in the order of the calls of At, a nanosecond
// apart. Each begins when all that the former has caused at once is done.
func (e *Env) At(elapsed time.Duration, act func(context.Context) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return
	}
	e.acts++
	at := e.begun.Add(elapsed + time.Duration(e.acts)*time.Nanosecond)
	e.later.Go(func() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		select {
		case <-e.ctx.Done():
			return
		case <-timer.C:
		}
		select {
		case e.acting <- struct{}{}: // in the order of the timers
		case <-e.ctx.Done():
			return
		}
		for e.bodies.order.busy() || e.acted.Equal(time.Now()) {
			time.Sleep(time.Nanosecond)
		}
		e.acted = time.Now()
		<-e.acting
		if err := act(e.ctx); err != nil && e.ctx.Err() == nil {
			e.t.Errorf("at %v: %v", elapsed, err)
		}
	})
}

// Settle waits until nothing runs at this instant: every run then waits for time to pass
// or for an act of the test. It is called by one goroutine at a time.
func (e *Env) Settle() {
	for synctest.Wait(); e.bodies.order.busy(); synctest.Wait() {
		time.Sleep(time.Nanosecond) // bodies begin one at a time, a nanosecond apart
	}
}

// Replace executes a body in place of the step's function, from the next attempt on. A
// nil body restores the step's own.
//
// The step is given by its location, as "pack/[sku-7]/pick", or by its name, which stands
// for every step with that name. If both were replaced the location decides.
func (e *Env) Replace(step string, body Body) {
	e.bodies.mu.Lock()
	defer e.bodies.mu.Unlock()
	e.bodies.replaced[keyOf(step)] = body
}

// Outside executes the step's function, or the body that replaces it, outside of the
// bubble, for work with things that were made there. Virtual time stands still meanwhile.
// The function must not use the engine, and a heartbeat does nothing. The step is given
// as in Replace.
func (e *Env) Outside(step string) {
	e.bodies.mu.Lock()
	defer e.bodies.mu.Unlock()
	e.bodies.outside[keyOf(step)] = true
}

// Attempts returns how many attempts of a step have begun, in all runs, replaced or not.
// The step is given as in Replace.
func (e *Env) Attempts(step string) int { return e.bodies.count(step) }
