package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/registry"
	"github.com/stet-run/stet/internal/reload"
	"github.com/stet-run/stet/internal/sweep"
	"github.com/stet-run/stet/store"
)

// sweepers return what deletes what has outlived its retention, by lane.
func (x *executor) sweepers() (list []*sweep.Sweeper) {
	for _, d := range x.dispatchers {
		list = append(list, x.sweeper(d))
	}
	return list
}

func (x *executor) sweeper(d *dispatcher) *sweep.Sweeper {
	unserved := registry.Unserved{Store: x.e.base, Log: x.log()}
	first := store.Shard{Group: store.DefaultGroup}
	return &sweep.Sweeper{
		Store: d.store, Rules: x.e.cfg.Retention, Pause: x.e.cfg.Sweep, Log: x.log(),
		Leases: func() []store.Lease { return d.held().Leases() },
		Collect: func(ctx context.Context) (int, error) {
			return x.e.cfg.Payloads.Collect(ctx, x.e.base, payload.Spare)
		},
		Mine: func() bool { return d.held().Of(first) != nil },
		Working: func() bool {
			running, _ := x.memory.Counts()
			return running > 0
		},
		Look: unserved.Look,
	}
}

// reloadFormer executes again, slowly, the runs that former builds have left suspended, and
// those that have lost their wake time.
func (x *executor) reloadFormer() {
	r := reload.Reloader{
		Store: x.e.base, Build: x.build(), Workflows: slices.Collect(maps.Keys(x.e.cfg.Workflows)), Rate: x.e.cfg.ReloadRate,
		Leases: func() []store.Lease { return x.shards.Now().Open() }, Apply: x.e.Apply, Log: x.log(),
		Poll: x.e.cfg.Poll,
		Idle: func() bool { return x.memory.Room() > x.e.cfg.MaxRuns/2 },
	}
	r.Run(x.held, x.stop.Done())
}
