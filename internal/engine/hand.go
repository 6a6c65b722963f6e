package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/internal/cluster"
	"github.com/stet-run/stet/store"
)

// holding is a shard in a tenure's hand. A shard that is lost and taken again is
// another holding: what belonged to the former one is over.
type holding struct {
	lease  store.Lease
	ctx    context.Context // ends with the holding
	cancel context.CancelFunc

	leaving atomic.Bool  // it is to be given back: nothing new begins
	dropped atomic.Bool  // it is over; set before it is out of the tenure's hand
	pending atomic.Int64 // turns on their way
	read    atomic.Int64 // inboxes were read completely at this time of the store or later

	batch int64 // the latest that touches it; of who makes batches, which is one at a time

	coming int // suspects that were claimed and not loaded yet; guarded by tenure.mu
}

// hand is the shards that a tenure holds at one moment. It does not change.
type hand struct {
	leases []store.Lease // of all
	claims []store.Lease // of those that are not to be given back
	of     map[store.Shard]*holding
}

// newHand returns the hand with these holdings.
func newHand(of map[store.Shard]*holding) *hand {
	h := &hand{of: of, leases: make([]store.Lease, 0, len(of))}
	for _, held := range of {
		h.leases = append(h.leases, held.lease)
		if !held.leaving.Load() {
			h.claims = append(h.claims, held.lease)
		}
	}
	return h
}

// among reports whether a shard that runs are claimed of may be in a set.
func (h *hand) among(set *store.ShardSet) bool {
	return slices.ContainsFunc(h.claims, func(l store.Lease) bool { return set.Has(l.Shard) })
}

// inboxAt returns the time at which the inboxes of the shard were read last.
func (h *holding) inboxAt() store.Time { return store.Time(h.read.Load()) }

// hold takes leases in hand.
func (t *tenure) hold(leases []store.Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := maps.Clone(t.hand.Load().of)
	for _, l := range leases {
		h := &holding{lease: l}
		h.ctx, h.cancel = context.WithCancel(t.held)
		of[l.Shard] = h
	}
	t.hand.Store(newHand(of))
}

// drop ends holdings at once: their bodies are cancelled, their activations unwound.
func (t *tenure) drop(holdings ...*holding) {
	over := map[*holding]bool{}
	t.mu.Lock()
	of := maps.Clone(t.hand.Load().of)
	for _, h := range holdings {
		if h.dropped.Swap(true) {
			continue
		}
		over[h] = true
		delete(of, h.lease.Shard)
	}
	t.hand.Store(newHand(of))
	var active []*activation
	for _, a := range t.active {
		if over[a.h] {
			active = append(active, a)
		}
	}
	alone := t.suspects.forget(over)
	t.mu.Unlock()
	for h := range over {
		h.cancel()
	}
	t.commits.dropped()
	for _, a := range active {
		a.post(event{unwind: true})
	}
	if alone {
		t.nextSuspect()
	}
}

// fenced is called when the store has said that the lease is not current any more.
func (t *tenure) fenced(h *holding) {
	if t.member == nil {
		t.cancel()
		return
	}
	if !h.dropped.Load() {
		t.drop(h)
		t.member.Fenced(h.lease)
	}
}

// Begin implements cluster.Work.
func (t *tenure) Begin(taken []store.Acquired) {
	leases := make([]store.Lease, len(taken))
	found := Recovery{Clean: true}
	for i := range taken {
		leases[i] = taken[i].Lease
		found.Shards = append(found.Shards, taken[i].Lease.Shard)
		found.Clean = found.Clean && taken[i].Clean
		found.Suspects += taken[i].Suspects
	}
	if report := t.e.cfg.OnRecover; report != nil {
		report(found)
	}
	t.hold(leases)
	t.claimSoon()
}

// End implements cluster.Work.
func (t *tenure) End(shards []store.Shard) { t.drop(t.holdings(shards)...) }

func (t *tenure) holdings(shards []store.Shard) []*holding {
	in := t.hand.Load()
	var holdings []*holding
	for _, s := range shards {
		if h := in.of[s]; h != nil {
			holdings = append(holdings, h)
		}
	}
	return holdings
}

// Yield implements cluster.Work.
func (t *tenure) Yield(shards []store.Shard, left func([]store.Shard)) {
	leaving := t.holdings(shards)
	t.mu.Lock()
	for _, h := range leaving {
		h.leaving.Store(true)
	}
	t.hand.Store(newHand(t.hand.Load().of))
	t.mu.Unlock()
	t.drivers.Add(1)
	go func() {
		defer t.drivers.Done()
		t.yield(leaving, left)
	}()
}

// yield lets bodies and turns of shards end, for at most the grace period, then
// cancels the bodies. Each shard is left as soon as nothing is done in it.
func (t *tenure) yield(leaving []*holding, left func([]store.Shard)) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	grace := time.NewTimer(t.e.cfg.Grace)
	defer grace.Stop()
	cancelled := false
	for {
		busy := t.busy()
		var quiet []*holding
		leaving = slices.DeleteFunc(leaving, func(h *holding) bool {
			if !busy[h] {
				quiet = append(quiet, h)
			}
			return !busy[h]
		})
		t.leave(quiet, left)
		if len(leaving) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-t.held.Done():
			return
		case <-grace.C:
			if cancelled {
				t.log().Error("shards are given back, but code in them has not returned", "code", strings.Join(t.stuck(leaving), "; "))
				t.leave(leaving, left)
				return
			}
			cancelled = true
			for _, h := range leaving {
				h.cancel()
			}
			grace.Reset(lastWait)
		}
	}
}

// leave ends holdings in which nothing is done, and tells so.
func (t *tenure) leave(holdings []*holding, left func([]store.Shard)) {
	if len(holdings) == 0 {
		return
	}
	t.drop(holdings...)
	shards := make([]store.Shard, len(holdings))
	for i, h := range holdings {
		shards[i] = h.lease.Shard
	}
	left(shards)
}

// busy returns the holdings in which something is being done.
func (t *tenure) busy() map[*holding]bool {
	busy := map[*holding]bool{}
	t.crew.working(busy)
	t.mu.Lock()
	active := slices.Collect(maps.Values(t.active))
	t.mu.Unlock()
	for _, a := range active {
		a.mu.Lock()
		if a.driving {
			busy[a.h] = true
		}
		a.mu.Unlock()
	}
	for _, h := range t.hand.Load().of {
		if h.pending.Load() > 0 {
			busy[h] = true
		}
	}
	return busy
}

// stuck returns what is being executed in the holdings.
func (t *tenure) stuck(holdings []*holding) []string {
	places := t.crew.places(holdings)
	t.mu.Lock()
	active := slices.Collect(maps.Values(t.active))
	t.mu.Unlock()
	for _, a := range active {
		a.mu.Lock()
		if a.driving && slices.Contains(holdings, a.h) {
			places = append(places, fmt.Sprintf("run %s workflow code", a.id))
		}
		a.mu.Unlock()
	}
	return places
}

// InHand implements cluster.Work.
func (t *tenure) InHand() []store.Unfit {
	t.mu.Lock()
	defer t.mu.Unlock()
	latest := map[store.Unfit]string{} // by what has no build
	for _, a := range t.active {
		if a.id != "" && t.parkings[a] == nil && !store.IsRecord(a.name) { // any node executes records
			of := store.Unfit{Shard: a.h.lease.Shard, Workflow: a.name}
			latest[of] = max(latest[of], t.build(), a.build)
		}
	}
	list := make([]store.Unfit, 0, len(latest))
	for of, build := range latest {
		of.Build = build
		list = append(list, of)
	}
	return list
}

// build returns the build that runs get here, as others compare it; "" is none.
func (t *tenure) build() string {
	if t.e.cfg.Build == UnknownBuild {
		return ""
	}
	return t.e.cfg.Build
}

// Left implements cluster.Work.
func (t *tenure) Left() []store.Unfit {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unfit
}

// holds reports whether a shard is in this process's hand.
func (e *Engine) holds(shard store.Shard) bool {
	t := e.tenure.Load()
	return t != nil && t.hand.Load().of[shard] != nil
}

// asMember works as one of several nodes until ctx ends.
func (e *Engine) asMember(ctx context.Context, node store.Node) error {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	t := newTenure(e, serving, context.WithoutCancel(ctx), e.executed())
	t.member = &cluster.Member{
		Store: e.cfg.Store, Node: node, Slots: e.slots, TTL: e.cfg.LeaseTTL, Renew: e.cfg.Renew, Poll: e.cfg.Poll,
		Log: e.cfg.Log, Observe: e.time.observe, Now: e.time.now, Hints: e.hub.waitNodes, Work: t,
	}
	t.member.Init()
	unlisten := e.hub.listen()
	defer unlisten()
	served := make(chan error, 1)
	go func() { served <- t.serve() }()
	err := t.member.Run(ctx)
	end()
	// The leases are given back, or have ended. A call of the store may hang all the
	// same, such as a commit that waits for a standby which is gone.
	hangs := time.AfterFunc(e.cfg.Grace+e.cfg.LeaseTTL, t.cancel)
	defer hangs.Stop()
	if problem := <-served; err == nil {
		err = problem
	}
	return err
}
