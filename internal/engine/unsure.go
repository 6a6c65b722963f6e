package engine

import (
	"context"
	"slices"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// Calls of the store that nobody answers. A connection can fall silent without being
// cut, and a primary wait for a standby that is gone. No call of an executor waits for ever:
// after the length of a lease it is given up, which leaves open what it has done, and
// what it was for is asked again, by another connection.

// limited returns a context for a call of the store.
func (x *executor) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, x.e.cfg.LeaseTTL)
}

// retake takes the runs into memory that a claim may have taken in hand whose answer was
// lost: they are claimed, and no activation has them. claims is the answer to a later
// claim. It reports false if they could not be read.
func (x *executor) retake(in *ownership.Shards, claims *store.Claims) bool {
	active := map[store.RunNo]bool{}
	x.mu.Lock()
	for no := range x.active {
		active[no] = true
	}
	x.mu.Unlock()
	var called []store.RunNo // as what has ended, for a verb
	for i := range claims.Runs {
		if c := &claims.Runs[i]; !c.New && !active[c.Run.No] {
			called = append(called, c.Run.No)
		}
	}
	filters := []store.Filter{{Statuses: []store.Status{store.Running}, Limit: store.MaxPage}}
	var records []string
	for workflow := range x.e.cfg.Records {
		records = append(records, workflow)
	}
	if len(records) > 0 {
		filters = append(filters, store.Filter{Workflows: records, Statuses: []store.Status{store.Running}, Limit: store.MaxPage})
	}
	for chunk := range slices.Chunk(called, 1000) {
		filters = append(filters, store.Filter{Nos: chunk, Limit: len(chunk)})
	}
	missing := map[store.RunNo]*ownership.Shard{}
	for _, f := range filters {
		for {
			ctx, done := x.limited(x.held)
			page, err := x.e.base.List(ctx, f)
			done()
			if err != nil {
				return false
			}
			for i := range page.Runs {
				r := &page.Runs[i]
				if h := in.Of(r.Shard); h != nil && r.Claimed && !active[r.No] {
					missing[r.No] = h
				}
			}
			if f.Cursor = page.Next; page.Next == "" {
				break
			}
		}
	}
	x.committer.Settle(x.held) // of those that a command has adopted the answer may be on its way
	for no, h := range missing {
		if x.find(no) == nil {
			x.log().Warn("a claimed run is taken into memory: the answer to its claim was lost", "run_no", no)
			x.take(h, no)
		}
	}
	return true
}
