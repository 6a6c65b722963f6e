package e2e_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// damagedStore has a run whose row cannot be read whole, until it is corrected.
type damagedStore struct {
	store.Store
	corrected *atomic.Bool
}

func (s damagedStore) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	snaps, left, err := s.Store.Load(ctx, runs)
	for i := range snaps {
		if run := &snaps[i].Run; run.ID == "bad" && !s.corrected.Load() {
			run.Damage = "its tags cannot be read"
		}
	}
	return snaps, left, err
}

// TestDamagedRowStallsItsRun and no other one. Once the row is corrected, the run goes on.
func TestDamagedRowStallsItsRun(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			ctx := testContext(t)
			var corrected atomic.Bool
			w := stet.Define("w", func(ctx stet.Context, n int) (int, error) { return n, nil })
			log := newLines()
			cfg := stet.Config{Store: damagedStore{s.open(t)(), &corrected}, Workflows: []stet.Definition{w},
				Logger: slog.New(log)}
			e, err := stet.New(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			bad, err := w.Start(ctx, e, 1, stet.ID("bad"))
			if err != nil {
				t.Fatal(err)
			}
			good, err := w.Start(ctx, e, 2, stet.ID("good"))
			if err != nil {
				t.Fatal(err)
			}
			running, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- e.Run(running) }()
			defer func() {
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}()
			if got, err := good.Wait(ctx); got != 2 || err != nil {
				t.Errorf("the other run: %d, %v", got, err)
			}
			if _, err := bad.Wait(ctx); !errors.Is(err, stet.ErrStalled) || !strings.Contains(err.Error(), "damaged: its tags") {
				t.Errorf("the damaged run: %v", err)
			}
			want := "ERROR run stalled run_id=bad workflow=w error=damaged: its tags"
			if got := log.of("bad"); len(got) != 1 || !strings.HasPrefix(got[0], want) {
				t.Errorf("the log has %q", got)
			}
			corrected.Store(true)
			if _, err := e.Runs().Resume(ctx, "bad", stet.Act{}); err != nil {
				t.Fatal(err)
			}
			if got, err := bad.Wait(ctx); got != 1 || err != nil {
				t.Errorf("after the correction: %d, %v", got, err)
			}
		})
	}
}
