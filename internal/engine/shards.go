package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/observe"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/recovery"
	"github.com/stet-run/stet/store"
)

// lose ends the stay of shards at once: bodies are cancelled, activations unwound.
func (x *executor) lose(shards ...*ownership.Shard) {
	lost := map[*ownership.Shard]bool{}
	for _, h := range x.shards.Lose(shards...) {
		lost[h] = true
	}
	// From here on nothing is added for these shards, in memory or to the suspects: both
	// ask Lost under their lock.
	active := slices.DeleteFunc(x.memory.All(), func(a *activation) bool { return !lost[a.shard] })
	x.committer.ShardsLost()
	for _, a := range active {
		a.post(unwound{})
	}
	x.suspects.Forget(lost)
}

// fenced is called when the store has said that the lease is not current any more.
func (x *executor) fenced(h *ownership.Shard) {
	if !h.Lost() && x.held.Err() == nil {
		x.e.cfg.Observer.Leases(observe.LeaseFenced, []store.Shard{h.ID()})
	}
	if x.member == nil {
		x.cancel()
	}
	if !h.Lost() {
		x.lose(h)
		x.member.Fenced(h.Lease())
	}
}

// wentBack is called when a lane does not have the last batch that it was held to. Unless that
// was known it drops all shards of the lane.
func (e *Engine) wentBack(lane int, last int64, err error) {
	if !e.batches[lane].Lost(last, func() {
		if x := e.executor.Load(); x != nil {
			for h := range x.dispatchers[lane].held().All() {
				x.fenced(h)
			}
		}
	}) {
		return
	}
	e.entities.Clear()
	e.cfg.Log.Error("the store has lost what it had acknowledged: all shards are dropped and taken again, "+
		"and runs go on from what is there", "node", e.cfg.Node, "error", err)
	if report := e.cfg.OnLoss; report != nil {
		report(err)
	}
}

// lane is what an executor does with one lane of the store. It implements committer.Owner.
type lane struct {
	*executor
	*dispatcher
}

// Shards implements committer.Owner.
func (l lane) Shards() *ownership.Shards { return l.dispatcher.held() }

// WentBack implements committer.Owner, and is called by the member.
func (l lane) WentBack(last int64, err error) { l.e.wentBack(l.dispatcher.lane, last, err) }

// shardWork is what an executor does with shards, as a member of several nodes asks it to.
type shardWork struct{ x *executor }

// Begin implements cluster.Work.
func (w shardWork) Begin(taken []store.Acquired) {
	leases, found := recovery.FoundIn(taken)
	w.x.recovery.Found(found)
	w.x.shards.Take(w.x.held, leases)
	w.x.e.cfg.Observer.Leases(observe.LeaseTaken, found.Shards)
	w.x.dispatchers.claimSoon()
}

// Lose implements cluster.Work.
func (w shardWork) Lose(shards []store.Shard) {
	w.x.lose(w.x.shards.Now().These(shards)...)
	w.x.e.cfg.Observer.Leases(observe.LeaseLost, shards)
}

// Drain implements cluster.Work.
func (w shardWork) Drain(shards []store.Shard, released func([]store.Shard)) {
	draining := w.x.shards.Drain(shards)
	w.x.crew.Go(func() {
		release := func(quiet []*ownership.Shard) { w.release(quiet, released) }
		stuck := ownership.GiveBack(w.x.held, draining, w.x.e.cfg.Grace, lastWait, w.busy, release)
		if len(stuck) > 0 {
			w.x.log().Error("shards are given back, but code in them has not returned",
				"code", strings.Join(w.stuck(stuck), "; "))
			release(stuck)
		}
	})
}

// release ends the stay of draining shards, so that their leases can be given back.
func (w shardWork) release(quiet []*ownership.Shard, released func([]store.Shard)) {
	if len(quiet) == 0 {
		return
	}
	w.x.lose(quiet...)
	shards := make([]store.Shard, len(quiet))
	for i, h := range quiet {
		shards[i] = h.ID()
	}
	w.x.e.cfg.Observer.Leases(observe.LeaseReleased, shards)
	released(shards)
}

// busy returns the shards in which a body, code or a turn is under way.
func (w shardWork) busy() map[*ownership.Shard]bool {
	busy := map[*ownership.Shard]bool{}
	for _, task := range w.x.steps.Pool.Running() {
		busy[shardOf(task)] = true
	}
	for _, a := range w.x.memory.All() {
		a.mu.Lock()
		if a.driving {
			busy[a.shard] = true
		}
		a.mu.Unlock()
	}
	for h := range w.x.shards.Now().All() {
		if h.Committing() {
			busy[h] = true
		}
	}
	return busy
}

// stuck returns where bodies and workflow code are being executed in the shards.
func (w shardWork) stuck(shards []*ownership.Shard) []string {
	var places []string
	for _, task := range w.x.steps.Pool.Running() {
		if slices.Contains(shards, shardOf(task)) {
			places = append(places, task.String())
		}
	}
	for _, a := range w.x.memory.All() {
		a.mu.Lock()
		if a.driving && slices.Contains(shards, a.shard) {
			places = append(places, fmt.Sprintf("run %s workflow code", a.id))
		}
		a.mu.Unlock()
	}
	return places
}

// Executing implements cluster.Work.
func (w shardWork) Executing() []store.Unservable { return w.x.memory.Executing(w.x.build()) }

// Unservable implements cluster.Work.
func (w shardWork) Unservable() (list []store.Unservable) {
	for _, d := range w.x.dispatchers {
		list = append(list, d.unservableRuns()...)
	}
	return list
}
