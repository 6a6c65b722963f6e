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
	// the beginning of a tenure for the first time.
	collectEvery, collectFirst = 24 * time.Hour, 30 * time.Minute
	// sweepShare is how much longer the sweeper rests after a part than that took.
	sweepShare = 4
	// sweepRest is the shortest rest.
	sweepRest = 10 * time.Millisecond
)

// sweep deletes what has outlived its retention, in small parts with rests in
// between, until the tenure is asked to stop or is lost.
func (t *tenure) sweep() {
	timer := time.NewTimer(t.e.cfg.Sweep)
	defer timer.Stop()
	req := store.SweepRequest{Rules: t.e.cfg.Retention}
	itemsAt, collectAt := time.Now().Add(sweepItems), time.Now().Add(collectFirst)
	for {
		select {
		case <-t.stop.Done():
			return
		case <-t.held.Done():
			return
		case <-timer.C:
		}
		begun := time.Now()
		req.Leases = t.shards.Now().Leases()
		if req.From == (store.SweepPlace{}) {
			req.Items = begun.After(itemsAt)
		}
		swept, err := t.e.cfg.Store.Sweep(t.held, req)
		switch {
		case err != nil:
			if t.held.Err() == nil {
				t.log().Warn("sweeping; trying again later", "error", err)
			}
			req.From = store.SweepPlace{}
			timer.Reset(t.e.cfg.Sweep)
		case swept.Done:
			req.From = store.SweepPlace{}
			if req.Items {
				itemsAt = begun.Add(sweepItems)
			}
			if begun.After(collectAt) {
				if t.e.holds(store.Shard{Group: store.DefaultGroup}) { // one does it for all
					t.collect()
				}
				collectAt = begun.Add(collectEvery)
			}
			timer.Reset(t.e.cfg.Sweep)
		default:
			req.From = swept.Next
			timer.Reset(max(sweepRest, sweepShare*time.Since(begun)))
		}
	}
}

// collect deletes objects that nothing refers to.
func (t *tenure) collect() {
	n, err := t.e.cfg.Payloads.Collect(t.held, t.e.base, time.Now().Add(-payload.Spare))
	switch {
	case err != nil && t.held.Err() == nil:
		t.log().Warn("deleting objects that nothing refers to; trying again tomorrow", "error", err, "deleted", n)
	case n > 0:
		t.log().Info("deleted objects that nothing refers to", "deleted", n)
	}
}
