package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/internal/activations"
	"github.com/stet-run/stet/internal/cluster"
	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/idle"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/recovery"
	"github.com/stet-run/stet/internal/report"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/internal/suspects"
)

// executor is the half of an engine that executes runs, while it owns shards: all that is
// in memory because of that.
type executor struct {
	e      *Engine
	stop   context.Context // ends: drain
	held   context.Context // ends: stop at once
	cancel context.CancelFunc

	member    cluster.Members // by lane; nil: this process owns all shards, or none
	shards    ownership.Set
	recovery  recovery.Recorder
	groups    []string
	committer committer.Lanes
	steps     steps.Env
	drivers   idle.Goroutines // that drive, load or wait for a reload
	stay      *idle.Stay      // ends when nothing is left to do; nil: it does not end by itself
	crew      committer.Crew  // goroutines of the committer, of hooks, and those that give shards back
	report    report.Reporter
	closed    atomic.Pointer[error]

	memory      *activations.Memory[*activation]
	dispatchers dispatchers // by lane
	lines       sync.Map    // *activation of an entity that admits runs of a line, by its ID
	suspects    *suspects.Line
}

func newExecutor(e *Engine, stop, held context.Context) *executor {
	x := &executor{
		e: e, stop: stop, groups: e.groups(),
		steps: steps.Env{
			Node: e.cfg.Node, Pool: steps.NewPool(e.cfg.MaxSteps, e.cfg.FairSteps), Now: e.time.Now, Payloads: e.cfg.Payloads,
			WarnStep: e.cfg.WarnStep, Observe: e.cfg.Attempt,
		},
	}
	for i, s := range e.lanes.Lanes() {
		x.dispatchers = append(x.dispatchers, newDispatcher(x, i, s))
	}
	x.shards.Divide(len(x.dispatchers), e.lanes.LaneOf)
	x.suspects = suspects.New(x, x.e.cfg.AloneFor)
	x.memory = activations.New(activations.Config[*activation]{
		MaxRuns: e.cfg.MaxRuns, MaxParkedBytes: e.cfg.MaxParkedBytes, ParkFor: e.cfg.ParkFor, Drivers: &x.drivers,
		Make: x.newActivation, ClaimSoon: x.dispatchers.claimSoon,
	})
	x.report.Log, x.report.Hooks, x.report.Now, x.report.Go = e.cfg.Log, e.cfg.Hooks, e.time.Now, x.crew.Go
	x.report.Observer, x.report.ParentID, x.steps.ParentID = e.cfg.Observer, x.memory.ParentID, x.memory.ParentID
	x.recovery.Count, x.recovery.Go, x.recovery.Now, x.recovery.Log = e.base.Count, x.crew.Go, e.time.Now, e.cfg.Log
	x.recovery.Hook = e.cfg.OnRecover
	x.held, x.cancel = context.WithCancel(held)
	x.committer.LaneOf, x.committer.Lane = e.lanes.LaneOf, e.laneOf
	for i, d := range x.dispatchers {
		x.committer.All = append(x.committer.All, committer.New(x.held, committer.Config{
			Store: d.store, Node: e.cfg.Node, Boot: e.boot, Batches: &e.batches[i], TTL: e.cfg.LeaseTTL,
			Seal: e.cfg.Payloads.SealTurn, Crowded: x.steps.Pool.Crowded, Observe: e.time.Observe, Log: e.cfg.Log,
		}, lane{x, d}))
	}
	return x
}

func (x *executor) log() *slog.Logger { return x.e.cfg.Log }

// serve works until the executor is asked to stop, or has lost what it holds.
func (x *executor) serve() error {
	defer x.e.changes.Listen()()
	writing, stopWriting := context.WithCancel(x.held)
	defer stopWriting()
	var writer sync.WaitGroup
	writer.Go(func() { x.committer.Run(writing) })
	x.e.executor.Store(x)
	x.recovery.Begin()
	var sweeper sync.WaitGroup
	switch {
	case x.stay != nil:
		sweeper.Go(func() { x.stay.Watch(x.held, x, x.dispatchers.claims(), x.tidy) })
	case !x.e.code.Empty(): // a node without workflows has no retention rules
		for _, s := range x.sweepers() {
			sweeper.Go(func() { s.Run(x.held, x.stop.Done()) })
		}
	}
	sweeper.Go(func() { x.steps.Watch(writing, x.log()) })
	if x.stay == nil && len(x.e.cfg.Workflows) > 0 {
		sweeper.Go(x.reloadFormer)
	}
	sweeper.Go(func() { x.e.code.Watch(x.held, x.e.cfg.Poll, x.dispatchers.claimSoon, x.log()) })
	x.dispatchers.run()
	err := x.shutdown()
	if closed := x.closed.Load(); closed != nil {
		err = errors.Join(*closed, err)
	}
	x.cancel()
	x.e.executor.CompareAndSwap(x, nil)
	stopWriting()
	writer.Wait()
	sweeper.Wait()
	return err
}

// StoreClosed ends the executor: nothing can be read or written any more.
func (x *executor) StoreClosed(err error) {
	x.closed.CompareAndSwap(nil, &err)
	if x.member != nil {
		x.member.StoreClosed(err)
	}
	x.cancel()
}

// shutdown lets bodies and turns end, for at most the grace period, then cancels the
// bodies and unwinds all code. The error lists the bodies and the code that have not
// returned.
func (x *executor) shutdown() error {
	x.memory.Drain()
	grace := time.NewTimer(x.e.cfg.Grace)
	defer grace.Stop()
	drained := x.steps.Pool.Stop()
	select {
	case <-drained:
		x.settle(grace.C)
	case <-grace.C:
		x.steps.Pool.CancelAll()
	case <-x.held.Done():
		x.steps.Pool.CancelAll()
	}
	select {
	case <-drained:
		x.settle(time.After(lastWait)) // what a body has told after it was cancelled counts, and its success
	case <-time.After(lastWait):
	}
	return x.unwind()
}

// lastWait is how long code that was cancelled may take to return.
const lastWait = time.Second

// settle waits until the results of the bodies are committed.
func (x *executor) settle(limit <-chan time.Time) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !x.quiet() {
		select {
		case <-tick.C:
		case <-limit:
			return
		case <-x.held.Done():
			return
		}
	}
}

// quiet reports whether no activation is being driven and nothing waits for a commit.
func (x *executor) quiet() bool {
	for _, a := range x.memory.All() {
		a.mu.Lock()
		driving := a.driving
		a.mu.Unlock()
		if driving {
			return false
		}
	}
	return x.committer.Idle()
}

// unwind ends all activations and waits for their goroutines, also if bodies have used up
// their own wait: the code of a run is cancelled only here.
func (x *executor) unwind() error {
	active := x.memory.All()
	for _, a := range active {
		a.post(unwound{})
	}
	x.cancel()
	done := make(chan struct{})
	go func() { x.drivers.Wait(); <-x.crew.Close(); close(done) }()
	var stuck []string
	select {
	case <-done:
	case <-time.After(lastWait):
		for _, a := range active {
			a.mu.Lock()
			if a.driving {
				stuck = append(stuck, fmt.Sprintf("run %s workflow code", a.id))
			}
			a.mu.Unlock()
		}
	}
	if stuck = append(stuck, x.steps.Pool.CancelAll()...); len(stuck) > 0 {
		return fmt.Errorf("stopped, but %d have not returned: %s", len(stuck), strings.Join(stuck, "; "))
	}
	return nil
}

// limited returns the context of a call of the store. A connection can fall silent without
// being cut, and a primary wait for a standby that is gone: no call of an executor waits
// without limit. After the length of a lease it is abandoned, which leaves its outcome
// open, and is made again by another connection.
func (x *executor) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, x.e.cfg.LeaseTTL)
}

// build returns the build that runs get here, as others compare it; "" is none.
func (x *executor) build() string {
	if x.e.cfg.Build == UnknownBuild {
		return ""
	}
	return x.e.cfg.Build
}
