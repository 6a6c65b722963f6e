package e2e_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// slow is a store that lists the nodes slowly, but within its caller's limit.
type slow struct {
	store.Store
	takes time.Duration
}

func (s slow) Register(ctx context.Context, n store.Node) (store.Time, error) {
	if err := takes(ctx, s.takes); err != nil {
		return 0, err
	}
	return s.Store.Register(ctx, n)
}

func (s slow) Describe(ctx context.Context) (store.Description, error) {
	if err := takes(ctx, s.takes); err != nil {
		return store.Description{}, err
	}
	return s.Store.Describe(ctx)
}

// TestANodeJoinsASlowStore: one of several that has no shards yet waits for the store's
// answers longer than it may when it has to renew leases. If it gave up and asked again, it
// would never have any.
func TestANodeJoinsASlowStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lease = 3 * time.Second
		s := slow{memory.New(memory.Slots(4)), lease * 4 / 10} // longer than the pause between renewals
		w := stet.Define("w", func(ctx stet.Context, n int) (int, error) { return n, nil })
		e := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{w}, LeaseTTL: lease,
			Logger: slog.New(slog.DiscardHandler)})
		time.Sleep(2 * lease) // it may have joined
		if got, err := run(t, e, w, 7); err != nil || got != 7 {
			t.Errorf("got %d, %v", got, err)
		}
	})
}
