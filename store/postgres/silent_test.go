package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
)

// TestConnectionsFallSilent under an engine, in whatever it asks, and are not cut: what
// was asked is given up after the length of a lease at most, and asked again by another
// connection. Runs go on.
func TestConnectionsFallSilent(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t)
	proxy := servers.NewProxy(t, server.Addr())
	flow := stet.Define("flow", func(ctx stet.Context, n int) (int, error) {
		for i := range 3 {
			if err := stet.Sleep(ctx, fmt.Sprint("nap-", i), 20*time.Millisecond); err != nil {
				return 0, err
			}
			if err := stet.Do(ctx, fmt.Sprint("step-", i), func(context.Context) error { return nil }); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	engineOn(t, open(t, server.TCP(proxy.Addr())), slog.New(slog.NewTextHandler(t.Output(), nil)), flow)
	// It knows the workflow itself: the other process may not have registered it yet.
	client, err := stet.New(t.Context(), stet.Config{Store: open(t, server.DSN()), Workflows: []stet.Definition{flow},
		Poll: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	wait := func(n int) time.Duration {
		t.Helper()
		begun := time.Now()
		run, err := flow.Start(ctx, client, n)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run.Wait(ctx); err != nil || got != n {
			t.Fatalf("run %d: %d, %v", n, got, err)
		}
		return time.Since(begun)
	}
	wait(0)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for n := 1; n <= 4; n++ {
		hold := proxy.Hold(random.IntN(6))
		t.Cleanup(hold.Go)
		t.Logf("the run took %v", wait(n))
		select {
		case <-hold.Held:
		case <-ctx.Done():
			t.Fatal("no connection fell silent")
		}
		t.Logf("the next one took %v", wait(100+n))
	}
}
