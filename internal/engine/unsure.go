package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// Calls of the store that nobody answers. A connection can fall silent without being
// cut, and a primary wait for a standby that is gone. No call of a tenure waits for ever:
// after the length of a lease it is given up, which leaves open what it has done, and
// what it was for is asked again, by another connection.

// limited returns a context for a call of the store.
func (t *tenure) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, t.e.cfg.LeaseTTL)
}

// longestPatience bounds how long a commit is waited for that was given up before.
const longestPatience = 10 * time.Minute

// attempt commits a batch once. It is given up when all leases that it is written under
// are over, since its turns would be refused, and at the latest after the length of a
// lease, or a multiple of that if the batch was given up before: it may be one that takes
// long. Then its outcome is unknown.
func (c *committer) attempt(ctx context.Context, b *batch) (store.BatchResult, error) {
	patience := min(c.t.e.cfg.LeaseTTL<<min(b.given, 20), max(longestPatience, c.t.e.cfg.LeaseTTL))
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.mu.Lock()
	c.under, c.giveUp = b, cancel
	c.mu.Unlock()
	result, err := c.t.e.base.Commit(limited, b.contents)
	c.mu.Lock()
	c.under, c.giveUp = nil, nil
	c.mu.Unlock()
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		b.given++
		err = fmt.Errorf("%w: no answer to a commit: %w", store.ErrUnknown, err)
	}
	return result, err
}

// dropped is called when holdings are over.
func (c *committer) dropped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.under != nil && c.under.given == 0 && c.under.over() {
		c.giveUp()
	}
}

// over reports whether the batch has leases and none of them is held any more. A turn may
// be of a shard that was taken after the batch's hand was looked at.
func (b *batch) over() bool {
	leases := b.contents.Leases
	return len(leases) > 0 && !slices.ContainsFunc(leases, func(l store.Lease) bool {
		h := b.shards.Of(l.Shard)
		return h != nil && !h.Lost()
	}) && !slices.ContainsFunc(b.turns, func(p pendingTurn) bool { return !p.h.Lost() })
}

// settle waits until what is on its way to the store now has been answered.
func (c *committer) settle(ctx context.Context) {
	c.mu.Lock()
	told := c.last
	c.mu.Unlock()
	if told == nil {
		return
	}
	select {
	case <-told:
	case <-ctx.Done():
	}
}

// retake takes the runs into memory that a claim may have taken in hand whose answer was
// lost: they are claimed, and no activation has them. claims is the answer to a later
// claim. It reports false if they could not be read.
func (t *tenure) retake(in *ownership.Shards, claims *store.Claims) bool {
	active := map[store.RunNo]bool{}
	t.mu.Lock()
	for no := range t.active {
		active[no] = true
	}
	t.mu.Unlock()
	var called []store.RunNo // as what has ended, for a verb
	for i := range claims.Runs {
		if c := &claims.Runs[i]; !c.New && !active[c.Run.No] {
			called = append(called, c.Run.No)
		}
	}
	filters := []store.Filter{{Statuses: []store.Status{store.Running}, Limit: store.MaxPage}}
	var records []string
	for workflow := range t.e.cfg.Records {
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
			ctx, done := t.limited(t.held)
			page, err := t.e.base.List(ctx, f)
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
	t.commits.settle(t.held) // of those that a command has adopted the answer may be on its way
	for no, h := range missing {
		if t.find(no) == nil {
			t.log().Warn("a claimed run is taken into memory: the answer to its claim was lost", "run_no", no)
			t.take(h, no)
		}
	}
	return true
}
