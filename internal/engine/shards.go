package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet/internal/observe"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/recovery"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/store"
)

// lose ends the stay of shards at once: bodies are cancelled, activations unwound. It returns
// those whose stay it has ended.
func (x *executor) lose(shards ...*ownership.Shard) (ended []*ownership.Shard) {
	if ended = x.shards.Lose(shards...); len(ended) == 0 {
		return nil
	}
	lost := map[*ownership.Shard]bool{}
	for _, h := range ended {
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
	return ended
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
func (w shardWork) Drain(shards []store.Shard, must bool, released func([]store.Shard)) {
	leaving := w.x.shards.Leave(shards, must)
	w.x.crew.Go(func() {
		release := func(quiet []*ownership.Shard) { w.release(quiet, released) }
		g := ownership.Handover{
			Set: &w.x.shards, Grace: -1, Last: lastWait, Window: closedFor, Pause: 8 * closedFor,
			Busy: w.busy, Opened: w.opened, Release: release, Cut: w.cut,
		}
		switch {
		case w.x.stay != nil: // its time is short, and nothing is to begin
			g.Grace, g.Window = w.x.e.cfg.Grace, math.MaxInt64
		case must:
			g.Grace, g.Pause = w.x.e.cfg.Grace, 2*closedFor
		}
		if stuck := g.Run(w.x.held, leaving); len(stuck) > 0 {
			w.x.log().Error("shards are given back, but code in them has not returned",
				"code", strings.Join(w.stuck(stuck), "; "))
			release(stuck)
		}
	})
}

// closedFor is how long the runs in a shard that is to be given back may have to wait for the
// bodies in it.
const closedFor = 600 * time.Millisecond

// opened lets the work in shards go on that could not be given back.
func (w shardWork) opened(again []*ownership.Shard) {
	for _, d := range w.x.dispatchers {
		d.unsure.Store(true) // what was claimed meanwhile is not in memory
	}
	w.x.dispatchers.claimSoon()
	for _, a := range w.x.memory.All() {
		if slices.Contains(again, a.shard) {
			a.post(timeReached{}) // its bodies may begin
		}
	}
}

// cut logs that bodies are cancelled.
func (w shardWork) cut(shards []*ownership.Shard) {
	if bodies := w.stuck(shards); len(bodies) > 0 {
		w.x.log().Info("the grace period is over: bodies are cancelled, and begin again where their shards go",
			"bodies", len(bodies), "shards", len(shards))
	}
}

// release ends the stay of closed shards, so that their leases can be given back.
func (w shardWork) release(quiet []*ownership.Shard, released func([]store.Shard)) {
	ended := w.x.lose(quiet...)
	if len(ended) == 0 {
		return
	}
	shards := make([]store.Shard, len(ended))
	for i, h := range ended {
		shards[i] = h.ID()
	}
	w.x.e.cfg.Observer.Leases(observe.LeaseReleased, shards)
	released(shards)
}

// busy returns the shards in which a body, code or a turn is under way, and for how long the
// oldest body has been executing there.
func (w shardWork) busy() map[*ownership.Shard]time.Duration {
	busy, now := map[*ownership.Shard]time.Duration{}, w.x.e.time.Now()
	for _, task := range w.x.steps.Pool.Running() {
		h := shardOf(task)
		busy[h] = max(busy[h], task.(*steps.Attempt).Age(now))
	}
	for _, a := range w.x.memory.All() {
		a.mu.Lock()
		if a.driving {
			busy[a.shard] = max(busy[a.shard], 0)
		}
		a.mu.Unlock()
	}
	for h := range w.x.shards.Now().All() {
		if h.Committing() {
			busy[h] = max(busy[h], 0)
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
