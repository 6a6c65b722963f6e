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

// tenure is one stay as owner, with all that is in memory because of it.
type tenure struct {
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

func newTenure(e *Engine, stop, held context.Context, workflows []string) *tenure {
	t := &tenure{
		e: e, stop: stop, workflows: workflows, groups: e.groups(),
		steps:  steps.Env{Pool: steps.NewPool(e.cfg.MaxSteps), Now: e.time.now, Payloads: e.cfg.Payloads},
		kick:   make(chan struct{}, 1),
		active: map[store.RunNo]*activation{}, ids: map[string]bool{}, parked: list.New(), parkings: map[*activation]*list.Element{},
	}
	t.held, t.cancel = context.WithCancel(held)
	t.suspects.coming = map[*ownership.Shard]int{}
	t.committer = committer.New(t.held, committer.Config{
		Store: e.base, Node: e.cfg.Node, Boot: e.boot, Batches: &e.batches, TTL: e.cfg.LeaseTTL,
		Seal: e.cfg.Payloads.SealTurn, Observe: e.time.observe, Log: e.cfg.Log,
	}, t)
	return t
}

func (t *tenure) log() *slog.Logger { return t.e.cfg.Log }

// serve works until the tenure is asked to stop or is lost.
func (t *tenure) serve() error {
	unlisten := t.e.hub.listen()
	defer unlisten()
	writing, stopWriting := context.WithCancel(t.held)
	defer stopWriting()
	var writer sync.WaitGroup
	writer.Go(func() { t.committer.Run(writing) })
	t.e.tenure.Store(t)
	if report := t.e.cfg.OnRecover; report != nil && t.recovery != nil {
		report(*t.recovery)
	}
	var sweeper sync.WaitGroup
	if len(t.e.cfg.Workflows) > 0 { // who has none does not know what is to be kept
		sweeper.Go(t.sweep)
	}
	t.dispatch()
	err := t.shutdown()
	t.e.tenure.CompareAndSwap(t, nil)
	t.cancel()
	stopWriting()
	writer.Wait()
	sweeper.Wait()
	return err
}

// draining reports whether nothing new may begin.
func (t *tenure) draining() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.drain
}

// room returns how many more runs memory may take.
func (t *tenure) room() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.drain {
		return 0
	}
	return max(t.e.cfg.MaxRuns-len(t.active)+t.parked.Len(), 0)
}

// expect puts a run into memory whose snapshot will be posted. It returns nil if
// the run is there already, or its shard or the tenure drains.
func (t *tenure) expect(h *ownership.Shard, no store.RunNo) *activation {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.drain || h.Draining() || h.Lost() {
		return nil
	}
	if former := t.active[no]; former != nil {
		former.mu.Lock()
		gone := former.gone
		former.mu.Unlock()
		if !gone && former.h == h {
			return nil
		}
		t.removeLocked(former)
	}
	t.activations++
	a := &activation{t: t, h: h, no: no, number: t.activations}
	t.active[no] = a
	return a
}

// introduce gives an expected activation the run's ID and code.
func (t *tenure) introduce(a *activation, run *store.Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.id, a.workflow = run.ID, t.e.cfg.Workflows[run.Workflow]
	a.name, a.build = run.Workflow, run.Build
	if t.active[a.no] == a {
		t.ids[run.ID] = true
	}
}

func (t *tenure) find(no store.RunNo) *activation {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.active[no]
}

// unname says that the end of a run is not going to be told any more: who waits from now
// on looks for himself.
func (t *tenure) unname(a *activation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.active[a.no] == a {
		delete(t.ids, a.id)
	}
}

// remove takes an activation out of memory.
func (t *tenure) remove(a *activation) {
	t.mu.Lock()
	t.removeLocked(a)
	starved := t.starved && !t.drain
	t.starved = false
	t.mu.Unlock()
	if starved {
		t.claimSoon()
	}
}

func (t *tenure) removeLocked(a *activation) {
	if t.active[a.no] == a {
		delete(t.active, a.no)
		delete(t.ids, a.id)
		if t.claiming {
			t.gone[a.no] = true
		}
		t.unparkLocked(a)
	}
}

// park keeps a suspended run in memory for a while.
func (t *tenure) park(a *activation, size int) {
	t.mu.Lock()
	if t.active[a.no] != a || t.drain {
		t.mu.Unlock()
		return
	}
	t.unparkLocked(a)
	a.parkedAt, a.size = time.Now(), size
	t.parkings[a] = t.parked.PushBack(a)
	var victim *activation
	if t.parked.Len() > t.e.cfg.MaxParked {
		victim = t.smallestLocked()
	}
	if t.parking == nil && t.parked.Len() > 0 {
		t.parking = time.AfterFunc(t.e.cfg.ParkFor, t.evictOld)
	}
	t.mu.Unlock()
	if victim != nil {
		victim.post(event{evict: true})
	}
}

// smallestLocked takes off the list the run that is cheapest to replay among
// those that have been parked longest.
func (t *tenure) smallestLocked() *activation {
	var best *activation
	for el, n := t.parked.Front(), 0; el != nil && n < 16; el, n = el.Next(), n+1 {
		if a := el.Value.(*activation); best == nil || a.size < best.size {
			best = a
		}
	}
	t.unparkLocked(best)
	return best
}

// unpark is called by the driver of a run that goes on.
func (t *tenure) unpark(a *activation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unparkLocked(a)
}

func (t *tenure) unparkLocked(a *activation) {
	if el := t.parkings[a]; el != nil {
		t.parked.Remove(el)
		delete(t.parkings, a)
	}
}

// evictOld ends the activations that have been parked for long.
func (t *tenure) evictOld() {
	var old []*activation
	t.mu.Lock()
	for el := t.parked.Front(); el != nil; el = t.parked.Front() {
		a := el.Value.(*activation)
		if time.Since(a.parkedAt) < t.e.cfg.ParkFor {
			break
		}
		t.unparkLocked(a)
		old = append(old, a)
	}
	t.parking = nil
	if el := t.parked.Front(); el != nil && !t.drain {
		t.parking = time.AfterFunc(t.e.cfg.ParkFor-time.Since(el.Value.(*activation).parkedAt), t.evictOld)
	}
	t.mu.Unlock()
	for _, a := range old {
		a.post(event{evict: true})
	}
}

// shutdown lets bodies and turns end, for at most the grace period, then cancels
// what runs and unwinds all code. The error lists what has not returned.
func (t *tenure) shutdown() error {
	t.mu.Lock()
	t.drain = true
	if t.parking != nil {
		t.parking.Stop()
	}
	t.mu.Unlock()
	grace := time.NewTimer(t.e.cfg.Grace)
	defer grace.Stop()
	drained := t.steps.Pool.Stop()
	select {
	case <-drained:
		t.settle(grace.C)
	case <-grace.C:
		t.steps.Pool.CancelAll()
	case <-t.held.Done():
		t.steps.Pool.CancelAll()
	}
	last := time.After(lastWait)
	select {
	case <-drained:
	case <-last:
	}
	return t.unwind(last)
}

// lastWait is how long code that was cancelled may take to return.
const lastWait = time.Second

// settle waits until what the bodies have left is committed.
func (t *tenure) settle(limit <-chan time.Time) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !t.quiet() {
		select {
		case <-tick.C:
		case <-limit:
			return
		case <-t.held.Done():
			return
		}
	}
}

// quiet reports whether no activation is being driven and nothing is to be
// written.
func (t *tenure) quiet() bool {
	t.mu.Lock()
	active := make([]*activation, 0, len(t.active))
	for _, a := range t.active {
		active = append(active, a)
	}
	t.mu.Unlock()
	for _, a := range active {
		a.mu.Lock()
		driving := a.driving
		a.mu.Unlock()
		if driving {
			return false
		}
	}
	return t.committer.Idle()
}

// unwind ends all activations and waits for their goroutines.
func (t *tenure) unwind(limit <-chan time.Time) error {
	t.mu.Lock()
	active := make([]*activation, 0, len(t.active))
	for _, a := range t.active {
		active = append(active, a)
	}
	t.mu.Unlock()
	for _, a := range active {
		a.post(event{unwind: true})
	}
	t.cancel()
	done := make(chan struct{})
	go func() { t.drivers.Wait(); close(done) }()
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
	if stuck = append(stuck, t.steps.Pool.CancelAll()...); len(stuck) > 0 {
		return fmt.Errorf("stopped, but %d have not returned: %s", len(stuck), strings.Join(stuck, "; "))
	}
	return nil
}
