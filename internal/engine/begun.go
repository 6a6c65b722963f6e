package engine

import (
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// recordBegun records, in the turn that gives tasks back, which tasks workers had begun: they may have had an effect.
// Only the queues know of that, and forget it with the permit. So the queues are read, within the length of a lease. A
// queue that cannot be read does not hold up the run. A worker that leases a task after the read and before the queue
// takes it back is missed.
func (x *executor) recordBegun(run *store.Run, turn *store.Turn, tasks []permit.Withdrawn) {
	if len(tasks) == 0 || x.e.cfg.Begun == nil { // nearly all turns
		return
	}
	over := turn.Update != nil && turn.Update.Status.Terminal()
	at := map[string]*store.Entry{}
	for i := range turn.Entries {
		e := &turn.Entries[i]
		if e.Kind == store.KindStep && (e.State == store.Withdrawn || over && e.State == store.Open) {
			at[e.Loc] = e
		}
	}
	var cut []permit.Withdrawn
	for _, task := range tasks {
		if at[task.Loc] != nil {
			cut = append(cut, task)
		}
	}
	if len(cut) == 0 {
		return
	}
	ctx, done := x.limited(x.held)
	defer done()
	begun, err := x.e.cfg.Begun(ctx, cut)
	if err != nil {
		x.log().Warn("a queue cannot be read: no history says whether workers had begun tasks that were withdrawn",
			"run_id", run.ID, "tasks", len(cut), "error", err)
		return
	}
	for _, task := range cut {
		if since := begun[task.Ticket]; since != 0 {
			e := at[task.Loc]
			if entry, err := stored.CutOff(e, since); err == nil { // the turn has encoded it
				*e = entry
			}
		}
	}
}
