package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
)

// TestServerWentBack restores a copy of the server's disk, on the same timeline, while an
// engine works on it. The engine notices by its next commit, says so, and every run goes on
// from what is there: no history has a hole.
func TestServerWentBack(t *testing.T) {
	t.Parallel()
	const runs, steps = 4, 150
	server := servers.NewPostgres(t)
	s := open(t, server.DSN())
	var done atomic.Int64
	losses := make(chan error, 100)
	flow := stet.Define("count", func(ctx stet.Context, _ int) (int, error) {
		for range steps {
			if _, err := stet.Step(ctx, "step", func(context.Context) (int64, error) { return done.Add(1), nil }); err != nil {
				return 0, err
			}
		}
		return steps, nil
	})
	e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{flow}, Build: "b",
		LeaseTTL: 20 * time.Second, OnLoss: func(err error) { losses <- err }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for i := range runs {
		if _, err := flow.Start(t.Context(), e, i, stet.ID(fmt.Sprint("run-", i))); err != nil {
			t.Fatal(err)
		}
	}
	reach := func(n int64) {
		t.Helper()
		servers.Until(t, fmt.Sprint(n, " steps are done"), func() bool { return done.Load() >= n })
	}
	reach(runs * 10)
	restore, err := server.Save()
	if err != nil {
		t.Fatal(err)
	}
	reach(runs * 40) // what is done between is lost
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		id := fmt.Sprint("run-", i)
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		got, err := flow.Handle(e, id).Wait(limited)
		cancel()
		if err != nil || got != steps {
			t.Fatalf("%s: %d, %v", id, got, err)
		}
		page, err := s.List(t.Context(), store.Filter{IDs: []string{id}})
		if err != nil || len(page.Runs) != 1 {
			t.Fatal(page, err)
		}
		entries, err := s.History(t.Context(), store.HistoryQuery{Run: page.Runs[0].No})
		if err != nil || len(entries) != steps {
			t.Errorf("%s has %d entries, %v; want %d", id, len(entries), err, steps)
		}
	}
	select {
	case err := <-losses:
		if !errors.Is(err, store.ErrWentBack) {
			t.Errorf("the loss is %v", err)
		}
	default:
		t.Error("OnLoss was not called")
	}
	if len(losses) > 0 {
		t.Errorf("OnLoss was called %d times more", len(losses))
	}
}
