package ownership

import (
	"context"
	"slices"
	"time"
)

// GiveBack lets what is done in draining shards end, for at most the grace period, then
// cancels it. Each shard is released as soon as nothing is done in it, as busy says. It
// returns early if ctx ends; else with those in which something is still done at a last time
// after the cancel.
func GiveBack(ctx context.Context, draining []*Shard, grace, last time.Duration, busy func() map[*Shard]bool,
	release func(quiet []*Shard),
) (stuck []*Shard) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(grace)
	defer limit.Stop()
	cancelled := false
	for {
		now := busy()
		var quiet []*Shard
		draining = slices.DeleteFunc(draining, func(h *Shard) bool {
			if !now[h] {
				quiet = append(quiet, h)
			}
			return !now[h]
		})
		release(quiet)
		if len(draining) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		case <-limit.C:
			if cancelled {
				return draining
			}
			cancelled = true
			for _, h := range draining {
				h.Cancel()
			}
			limit.Reset(last)
		}
	}
}
