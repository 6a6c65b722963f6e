package engine

import (
	"sync"

	"github.com/stet-run/stet/internal/idle"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// laneOf returns the lane of a command's run.
func (e *Engine) laneOf(c *store.Command) int {
	switch {
	case len(e.batches) == 1:
		return 0
	case c.Start != nil:
		return e.lanes.LaneOf(c.Start.Shard.Slot)
	case c.RunNo != 0:
		return e.lanes.LaneOf(e.lanes.SlotOf(c.RunNo))
	}
	return e.lanes.LaneOf(e.Slot(c.RunID))
}

// dispatchers are those of all lanes.
type dispatchers []*dispatcher

// of returns the dispatcher of a shard.
func (x *executor) of(shard *ownership.Shard) *dispatcher {
	if len(x.dispatchers) == 1 {
		return x.dispatchers[0]
	}
	return x.dispatchers[x.e.lanes.LaneOf(shard.ID().Slot)]
}

func (a *activation) dispatcher() *dispatcher { return a.x.of(a.shard) }

// claimSoon is that of all.
func (all dispatchers) claimSoon() {
	for _, d := range all {
		d.claimSoon()
	}
}

// run is that of all.
func (all dispatchers) run() {
	var others sync.WaitGroup
	for _, d := range all[1:] {
		others.Go(d.run)
	}
	all[0].run()
	others.Wait()
}

// claims returns those that are made of all lanes.
func (all dispatchers) claims() (list []*idle.Claims) {
	for _, d := range all {
		list = append(list, &d.claims)
	}
	return list
}
