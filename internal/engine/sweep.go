package engine

import (
	"time"

	"github.com/stet-run/stet/store"
)

const (
	// sweepItemsEvery is how many passes there are for one that looks for consumed
	// items, which looks at more.
	sweepItemsEvery = 60
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
	req := store.SweepRequest{Leases: t.leases, Rules: t.e.cfg.Retention}
	for passes := 1; ; {
		select {
		case <-t.stop.Done():
			return
		case <-t.held.Done():
			return
		case <-timer.C:
		}
		req.Items = passes%sweepItemsEvery == 0
		begun := time.Now()
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
			passes++
			timer.Reset(t.e.cfg.Sweep)
		default:
			req.From = swept.Next
			timer.Reset(max(sweepRest, sweepShare*time.Since(begun)))
		}
	}
}
