package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// lose ends the stay of shards at once: bodies are cancelled, activations unwound.
func (x *executor) lose(shards ...*ownership.Shard) {
	lost := map[*ownership.Shard]bool{}
	for _, h := range x.shards.Lose(shards...) {
		lost[h] = true
	}
	// From here on nothing is added for these shards: who adds looks at Lost, under
	// the lock.
	x.mu.Lock()
	var active []*activation
	for _, a := range x.active {
		if lost[a.shard] {
			active = append(active, a)
		}
	}
	alone := x.suspects.forget(lost)
	x.mu.Unlock()
	x.committer.ShardsLost()
	for _, a := range active {
		a.post(event{unwind: true})
	}
	if alone {
		x.nextSuspect()
	}
}

// fenced is called when the store has said that the lease is not current any more.
func (x *executor) fenced(h *ownership.Shard) {
	if x.member == nil {
		x.cancel()
		return
	}
	if !h.Lost() {
		x.lose(h)
		x.member.Fenced(h.Lease())
	}
}

// Begin implements cluster.Work.
func (x *executor) Begin(taken []store.Acquired) {
	leases := make([]store.Lease, len(taken))
	found := Recovery{Clean: true}
	for i := range taken {
		leases[i] = taken[i].Lease
		found.Shards = append(found.Shards, taken[i].Lease.Shard)
		found.Clean = found.Clean && taken[i].Clean
		found.Suspects += taken[i].Suspects
	}
	if report := x.e.cfg.OnRecover; report != nil {
		report(found)
	}
	x.shards.Take(x.held, leases)
	x.claimSoon()
}

// Lose implements cluster.Work.
func (x *executor) Lose(shards []store.Shard) { x.lose(x.shards.Now().These(shards)...) }

// Drain implements cluster.Work.
func (x *executor) Drain(shards []store.Shard, released func([]store.Shard)) {
	draining := x.shards.Drain(shards)
	x.drivers.Go(func() { x.giveBack(draining, released) })
}

// giveBack lets bodies and turns of draining shards end, for at most the grace period,
// then cancels the bodies. Each shard is released as soon as nothing is done in it.
func (x *executor) giveBack(draining []*ownership.Shard, released func([]store.Shard)) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	grace := time.NewTimer(x.e.cfg.Grace)
	defer grace.Stop()
	cancelled := false
	for {
		busy := x.busy()
		var quiet []*ownership.Shard
		draining = slices.DeleteFunc(draining, func(h *ownership.Shard) bool {
			if !busy[h] {
				quiet = append(quiet, h)
			}
			return !busy[h]
		})
		x.release(quiet, released)
		if len(draining) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-x.held.Done():
			return
		case <-grace.C:
			if cancelled {
				x.log().Error("shards are given back, but code in them has not returned",
					"code", strings.Join(x.stuck(draining), "; "))
				x.release(draining, released)
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
func (x *executor) release(quiet []*ownership.Shard, released func([]store.Shard)) {
	if len(quiet) == 0 {
		return
	}
	x.lose(quiet...)
	shards := make([]store.Shard, len(quiet))
	for i, h := range quiet {
		shards[i] = h.ID()
	}
	released(shards)
}

// busy returns the shards in which something is being done.
func (x *executor) busy() map[*ownership.Shard]bool {
	busy := map[*ownership.Shard]bool{}
	for _, task := range x.steps.Pool.Running() {
		busy[shardOf(task)] = true
	}
	x.mu.Lock()
	active := slices.Collect(maps.Values(x.active))
	x.mu.Unlock()
	for _, a := range active {
		a.mu.Lock()
		if a.driving {
			busy[a.shard] = true
		}
		a.mu.Unlock()
	}
	for h := range x.shards.Now().All() {
		if h.Committing() {
			busy[h] = true
		}
	}
	return busy
}

// stuck returns what is being executed in the shards.
func (x *executor) stuck(shards []*ownership.Shard) []string {
	var places []string
	for _, task := range x.steps.Pool.Running() {
		if slices.Contains(shards, shardOf(task)) {
			places = append(places, task.String())
		}
	}
	x.mu.Lock()
	active := slices.Collect(maps.Values(x.active))
	x.mu.Unlock()
	for _, a := range active {
		a.mu.Lock()
		if a.driving && slices.Contains(shards, a.shard) {
			places = append(places, fmt.Sprintf("run %s workflow code", a.id))
		}
		a.mu.Unlock()
	}
	return places
}

// Executing implements cluster.Work.
func (x *executor) Executing() []store.Unservable {
	x.mu.Lock()
	defer x.mu.Unlock()
	latest := map[store.Unservable]string{} // by what has no build
	for _, a := range x.active {
		if a.id != "" && x.parkings[a] == nil && !store.IsEntity(a.name) { // any node executes records
			of := store.Unservable{Shard: a.shard.ID(), Workflow: a.name}
			latest[of] = max(latest[of], x.build(), a.build)
		}
	}
	list := make([]store.Unservable, 0, len(latest))
	for of, build := range latest {
		of.Build = build
		list = append(list, of)
	}
	return list
}

// Unservable implements cluster.Work.
func (x *executor) Unservable() []store.Unservable {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.unfit
}
