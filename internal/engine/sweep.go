package engine

import (
	"context"

	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/sweep"
	"github.com/stet-run/stet/store"
)

// sweeper returns what deletes what has outlived its retention.
func (x *executor) sweeper() *sweep.Sweeper {
	return &sweep.Sweeper{
		Store: x.e.cfg.Store, Rules: x.e.cfg.Retention, Pause: x.e.cfg.Sweep, Log: x.log(),
		Leases: func() []store.Lease { return x.shards.Now().Leases() },
		Collect: func(ctx context.Context) (int, error) {
			return x.e.cfg.Payloads.Collect(ctx, x.e.base, payload.Spare)
		},
		Mine: func() bool { return x.e.holds(store.Shard{Group: store.DefaultGroup}) },
	}
}
