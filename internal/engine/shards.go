package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/cluster"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// lose ends the stay of shards at once: bodies are cancelled, activations unwound.
func (t *tenure) lose(shards ...*ownership.Shard) {
	lost := map[*ownership.Shard]bool{}
	for _, h := range t.shards.Lose(shards...) {
		lost[h] = true
	}
	// From here on nothing is added for these shards: who adds looks at Lost, under
	// the lock.
	t.mu.Lock()
	var active []*activation
	for _, a := range t.active {
		if lost[a.h] {
			active = append(active, a)
		}
	}
	alone := t.suspects.forget(lost)
	t.mu.Unlock()
	t.committer.ShardsLost()
	for _, a := range active {
		a.post(event{unwind: true})
	}
	if alone {
		t.nextSuspect()
	}
}

// fenced is called when the store has said that the lease is not current any more.
func (t *tenure) fenced(h *ownership.Shard) {
	if t.member == nil {
		t.cancel()
		return
	}
	if !h.Lost() {
		t.lose(h)
		t.member.Fenced(h.Lease())
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
	t.shards.Take(t.held, leases)
	t.claimSoon()
}

// End implements cluster.Work.
func (t *tenure) End(shards []store.Shard) { t.lose(t.shards.Now().These(shards)...) }

// Yield implements cluster.Work.
func (t *tenure) Yield(shards []store.Shard, left func([]store.Shard)) {
	draining := t.shards.Drain(shards)
	t.drivers.Go(func() { t.giveBack(draining, left) })
}

// giveBack lets bodies and turns of draining shards end, for at most the grace period,
// then cancels the bodies. Each shard is released as soon as nothing is done in it.
func (t *tenure) giveBack(draining []*ownership.Shard, released func([]store.Shard)) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	grace := time.NewTimer(t.e.cfg.Grace)
	defer grace.Stop()
	cancelled := false
	for {
		busy := t.busy()
		var quiet []*ownership.Shard
		draining = slices.DeleteFunc(draining, func(h *ownership.Shard) bool {
			if !busy[h] {
				quiet = append(quiet, h)
			}
			return !busy[h]
		})
		t.release(quiet, released)
		if len(draining) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-t.held.Done():
			return
		case <-grace.C:
			if cancelled {
				t.log().Error("shards are given back, but code in them has not returned",
					"code", strings.Join(t.stuck(draining), "; "))
				t.release(draining, released)
				return
			}
			cancelled = true
			for _, h := range draining {
				h.Cancel()
			}
			grace.Reset(lastWait)
		}
	}
}

// release ends the stay of draining shards, so that their leases can be given back.
func (t *tenure) release(quiet []*ownership.Shard, released func([]store.Shard)) {
	if len(quiet) == 0 {
		return
	}
	t.lose(quiet...)
	shards := make([]store.Shard, len(quiet))
	for i, h := range quiet {
		shards[i] = h.ID()
	}
	released(shards)
}

// busy returns the shards in which something is being done.
func (t *tenure) busy() map[*ownership.Shard]bool {
	busy := map[*ownership.Shard]bool{}
	for _, task := range t.steps.Pool.Running() {
		busy[shardOf(task)] = true
	}
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
	for h := range t.shards.Now().All() {
		if h.Committing() {
			busy[h] = true
		}
	}
	return busy
}

// stuck returns what is being executed in the shards.
func (t *tenure) stuck(shards []*ownership.Shard) []string {
	var places []string
	for _, task := range t.steps.Pool.Running() {
		if slices.Contains(shards, shardOf(task)) {
			places = append(places, task.String())
		}
	}
	t.mu.Lock()
	active := slices.Collect(maps.Values(t.active))
	t.mu.Unlock()
	for _, a := range active {
		a.mu.Lock()
		if a.driving && slices.Contains(shards, a.h) {
			places = append(places, fmt.Sprintf("run %s workflow code", a.id))
		}
		a.mu.Unlock()
	}
	return places
}

// InHand implements cluster.Work.
func (t *tenure) InHand() []store.Unservable {
	t.mu.Lock()
	defer t.mu.Unlock()
	latest := map[store.Unservable]string{} // by what has no build
	for _, a := range t.active {
		if a.id != "" && t.parkings[a] == nil && !store.IsEntity(a.name) { // any node executes records
			of := store.Unservable{Shard: a.h.ID(), Workflow: a.name}
			latest[of] = max(latest[of], t.build(), a.build)
		}
	}
	list := make([]store.Unservable, 0, len(latest))
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
func (t *tenure) Left() []store.Unservable {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unfit
}

// holds reports whether this process holds a shard now.
func (e *Engine) holds(shard store.Shard) bool {
	t := e.tenure.Load()
	return t != nil && t.shards.Now().Of(shard) != nil
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
