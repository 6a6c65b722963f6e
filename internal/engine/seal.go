package engine

import (
	"time"

	"github.com/stet-run/stet/store"
)

// unreadable is how long a run rests whose values cannot be read.
const unreadable = 30 * time.Second

// open opens the items of a claim. It reports false if that cannot be done: the
// activation is over then, and the run is tried again later.
func (a *activation) open(ev *event) bool {
	if !ev.sealed {
		return true
	}
	err := a.x.e.cfg.Payloads.OpenItems(a.shard.Context(), ev.claimed.Items)
	if err == nil {
		return true
	}
	if a.shard.Context().Err() == nil {
		a.x.log().Error("reading what was sent to a run; trying again later", "run_id", a.id, "error", err)
	}
	a.leave(nil)
	a.x.reloadAfter(a.shard, a.no, unreadable)
	return false
}

// origin says how a run began whose stored input is not what it was given.
func (e *Engine) origin(run *store.Run, next *store.Continuation) {
	if run.Incarnation == 0 && e.cfg.Payloads.Active() {
		next.First = run.Origin()
	}
}
