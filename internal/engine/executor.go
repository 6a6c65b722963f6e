package engine

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/internal/cluster"
	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/store"
)

// executor is the half of an engine that executes runs, while it owns shards: all that is
// in memory because of that.
type executor struct {
	e      *Engine
	stop   context.Context // ends: drain
	held   context.Context // ends: stop at once
	cancel context.CancelFunc

	member    *cluster.Member // nil: this process owns all shards, or none
	shards    ownership.Set
	recovery  *Recovery // what was found at the begin; nil: it is told elsewhere
	workflows []string
	groups    []string
	committer *committer.Committer
	steps     steps.Env
	drivers   sync.WaitGroup // goroutines that drive, load or wait for a retry
	kick      chan struct{}  // capacity 1: a hint to claim
	unsure    bool           // a claim has failed since the last retake; the dispatcher's
	asked     atomic.Int64   // claims that were asked for

	mu          sync.Mutex
	active      map[store.RunNo]*activation
	activations int64           // made so far
	ids         map[string]bool // IDs of the active
	parked      *list.List      // of *activation, longest parked first
	parkings    map[*activation]*list.Element
	parking     *time.Timer        // evicts; nil: nothing is parked
	nextWake    store.Time         // earliest known wake time of a suspended run; 0: none known
	lag         time.Duration      // by which the store's time was behind our bound at the last claim
	unfit       []store.Unservable // what the last claim that asked has left
	askedUnfit  time.Time
	readers     []*activation
	starved     bool // a claim was cut because memory was full
	// claiming says that a claim is being asked for; gone are the runs that have
	// left memory meanwhile: it may tell news of one that is ready again since.
	claiming bool
	gone     map[store.RunNo]bool
	drain    bool
	suspects suspects
}

func newExecutor(e *Engine, stop, held context.Context, workflows []string) *executor {
	x := &executor{
		e: e, stop: stop, workflows: workflows, groups: e.groups(),
		steps:  steps.Env{Pool: steps.NewPool(e.cfg.MaxSteps), Now: e.time.now, Payloads: e.cfg.Payloads},
		kick:   make(chan struct{}, 1),
		active: map[store.RunNo]*activation{}, ids: map[string]bool{}, parked: list.New(), parkings: map[*activation]*list.Element{},
	}
	x.held, x.cancel = context.WithCancel(held)
	x.suspects.coming = map[*ownership.Shard]int{}
	x.committer = committer.New(x.held, committer.Config{
		Store: e.base, Node: e.cfg.Node, Boot: e.boot, Batches: &e.batches, TTL: e.cfg.LeaseTTL,
		Seal: e.cfg.Payloads.SealTurn, Observe: e.time.observe, Log: e.cfg.Log,
	}, x)
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
	if report := x.e.cfg.OnRecover; report != nil && x.recovery != nil {
		report(*x.recovery)
	}
	var sweeper sync.WaitGroup
	if len(x.e.cfg.Workflows) > 0 { // who has none does not know what is to be kept
		sweeper.Go(x.sweep)
	}
	x.dispatch()
	err := x.shutdown()
	x.e.executor.CompareAndSwap(x, nil)
	x.cancel()
	stopWriting()
	writer.Wait()
	sweeper.Wait()
	return err
}

// draining reports whether nothing new may begin.
func (x *executor) draining() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.drain
}

// room returns how many more runs memory may take.
func (x *executor) room() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.drain {
		return 0
	}
	return max(x.e.cfg.MaxRuns-len(x.active)+x.parked.Len(), 0)
}

// expect puts a run into memory whose snapshot will be posted. It returns nil if
// the run is there already, or its shard or the executor drains.
func (x *executor) expect(h *ownership.Shard, no store.RunNo) *activation {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.drain || h.Draining() || h.Lost() {
		return nil
	}
	if former := x.active[no]; former != nil {
		former.mu.Lock()
		gone := former.gone
		former.mu.Unlock()
		if !gone && former.shard == h {
			return nil
		}
		x.removeLocked(former)
	}
	x.activations++
	a := &activation{x: x, shard: h, no: no, number: x.activations}
	x.active[no] = a
	return a
}

// introduce gives an expected activation the run's ID and code.
func (x *executor) introduce(a *activation, run *store.Run) {
	x.mu.Lock()
	defer x.mu.Unlock()
	a.id, a.workflow = run.ID, x.e.cfg.Workflows[run.Workflow]
	a.name, a.build = run.Workflow, run.Build
	if x.active[a.no] == a {
		x.ids[run.ID] = true
	}
}

func (x *executor) find(no store.RunNo) *activation {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.active[no]
}

// unname says that the end of a run is not going to be told any more: who waits from now
// on looks for himself.
func (x *executor) unname(a *activation) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.active[a.no] == a {
		delete(x.ids, a.id)
	}
}

// remove takes an activation out of memory.
func (x *executor) remove(a *activation) {
	x.mu.Lock()
	x.removeLocked(a)
	starved := x.starved && !x.drain
	x.starved = false
	x.mu.Unlock()
	if starved {
		x.claimSoon()
	}
}

func (x *executor) removeLocked(a *activation) {
	if x.active[a.no] == a {
		delete(x.active, a.no)
		delete(x.ids, a.id)
		if x.claiming {
			x.gone[a.no] = true
		}
		x.unparkLocked(a)
	}
}

// park keeps a suspended run in memory for a while.
func (x *executor) park(a *activation, size int) {
	x.mu.Lock()
	if x.active[a.no] != a || x.drain {
		x.mu.Unlock()
		return
	}
	x.unparkLocked(a)
	a.parkedAt, a.size = time.Now(), size
	x.parkings[a] = x.parked.PushBack(a)
	var victim *activation
	if x.parked.Len() > x.e.cfg.MaxParked {
		victim = x.smallestLocked()
	}
	if x.parking == nil && x.parked.Len() > 0 {
		x.parking = time.AfterFunc(x.e.cfg.ParkFor, x.evictOld)
	}
	x.mu.Unlock()
	if victim != nil {
		victim.post(event{evict: true})
	}
}

// smallestLocked takes off the list the run that is cheapest to replay among
// those that have been parked longest.
func (x *executor) smallestLocked() *activation {
	var best *activation
	for el, n := x.parked.Front(), 0; el != nil && n < 16; el, n = el.Next(), n+1 {
		if a := el.Value.(*activation); best == nil || a.size < best.size {
			best = a
		}
	}
	x.unparkLocked(best)
	return best
}

// unpark is called by the driver of a run that goes on.
func (x *executor) unpark(a *activation) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unparkLocked(a)
}

func (x *executor) unparkLocked(a *activation) {
	if el := x.parkings[a]; el != nil {
		x.parked.Remove(el)
		delete(x.parkings, a)
	}
}

// evictOld ends the activations that have been parked for long.
func (x *executor) evictOld() {
	var old []*activation
	x.mu.Lock()
	for el := x.parked.Front(); el != nil; el = x.parked.Front() {
		a := el.Value.(*activation)
		if time.Since(a.parkedAt) < x.e.cfg.ParkFor {
			break
		}
		x.unparkLocked(a)
		old = append(old, a)
	}
	x.parking = nil
	if el := x.parked.Front(); el != nil && !x.drain {
		x.parking = time.AfterFunc(x.e.cfg.ParkFor-time.Since(el.Value.(*activation).parkedAt), x.evictOld)
	}
	x.mu.Unlock()
	for _, a := range old {
		a.post(event{evict: true})
	}
}

// shutdown lets bodies and turns end, for at most the grace period, then cancels
// what runs and unwinds all code. The error lists what has not returned.
func (x *executor) shutdown() error {
	x.mu.Lock()
	x.drain = true
	if x.parking != nil {
		x.parking.Stop()
	}
	x.mu.Unlock()
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
	last := time.After(lastWait)
	select {
	case <-drained:
	case <-last:
	}
	return x.unwind(last)
}

// lastWait is how long code that was cancelled may take to return.
const lastWait = time.Second

// settle waits until what the bodies have left is committed.
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

// quiet reports whether no activation is being driven and nothing is to be
// written.
func (x *executor) quiet() bool {
	x.mu.Lock()
	active := make([]*activation, 0, len(x.active))
	for _, a := range x.active {
		active = append(active, a)
	}
	x.mu.Unlock()
	for _, a := range active {
		a.mu.Lock()
		driving := a.driving
		a.mu.Unlock()
		if driving {
			return false
		}
	}
	return x.committer.Idle()
}

// unwind ends all activations and waits for their goroutines.
func (x *executor) unwind(limit <-chan time.Time) error {
	x.mu.Lock()
	active := make([]*activation, 0, len(x.active))
	for _, a := range x.active {
		active = append(active, a)
	}
	x.mu.Unlock()
	for _, a := range active {
		a.post(event{unwind: true})
	}
	x.cancel()
	done := make(chan struct{})
	go func() { x.drivers.Wait(); close(done) }()
	var stuck []string
	select {
	case <-done:
	case <-limit:
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
