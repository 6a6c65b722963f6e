package engine

import (
	"time"

	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/store"
)

const (
	// sweepItems is how often a pass looks for consumed items as well, which is to
	// look at more.
	sweepItems = time.Hour
	// collectEvery is how often objects are collected, collectFirst how long after
	// the beginning of an executor for the first time.
	collectEvery, collectFirst = 24 * time.Hour, 30 * time.Minute
	// sweepShare is how much longer the sweeper rests after a part than that took.
	sweepShare = 4
	// sweepRest is the shortest rest.
	sweepRest = 10 * time.Millisecond
)

// sweep deletes what has outlived its retention, in small parts with rests in
// between, until the executor is asked to stop or is lost.
func (x *executor) sweep() {
	timer := time.NewTimer(x.e.cfg.Sweep)
	defer timer.Stop()
	req := store.SweepRequest{Rules: x.e.cfg.Retention}
	itemsAt, collectAt := time.Now().Add(sweepItems), time.Now().Add(collectFirst)
	for {
		select {
		case <-x.stop.Done():
			return
		case <-x.held.Done():
			return
		case <-timer.C:
		}
		begun := time.Now()
		req.Leases = x.shards.Now().Leases()
		if req.From == (store.SweepPlace{}) {
			req.Items = begun.After(itemsAt)
		}
		swept, err := x.e.cfg.Store.Sweep(x.held, req)
		switch {
		case err != nil:
			if x.held.Err() == nil {
				x.log().Warn("sweeping; trying again later", "error", err)
			}
			req.From = store.SweepPlace{}
			timer.Reset(x.e.cfg.Sweep)
		case swept.Done:
			req.From = store.SweepPlace{}
			if req.Items {
				itemsAt = begun.Add(sweepItems)
			}
			if begun.After(collectAt) {
				if x.e.holds(store.Shard{Group: store.DefaultGroup}) { // one does it for all
					x.collect()
				}
				collectAt = begun.Add(collectEvery)
			}
			timer.Reset(x.e.cfg.Sweep)
		default:
			req.From = swept.Next
			timer.Reset(max(sweepRest, sweepShare*time.Since(begun)))
		}
	}
}

// collect deletes objects that nothing refers to.
func (x *executor) collect() {
	n, err := x.e.cfg.Payloads.Collect(x.held, x.e.base, time.Now().Add(-payload.Spare))
	switch {
	case err != nil && x.held.Err() == nil:
		x.log().Warn("deleting objects that nothing refers to; trying again tomorrow", "error", err, "deleted", n)
	case n > 0:
		x.log().Info("deleted objects that nothing refers to", "deleted", n)
	}
}
