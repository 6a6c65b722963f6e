package enginetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// WentBack takes a copy of what the store's server has on its disk, and puts it in its place while an engine works
// on it. Save makes the copy, and returns what puts it back. The store must be empty, and on a server of its own. The
// engine notices by its next commit, says so once, and every run goes on from what is there: no history has a hole.
func WentBack(t *testing.T, s store.Store, save func() (restore func() error, err error)) {
	const runs, steps = 4, 150
	var done atomic.Int64
	early, late := make(chan struct{}), make(chan struct{})
	losses := make(chan error, 100)
	flow := stet.Define("count", func(ctx stet.Context, _ int) (int, error) {
		for range steps {
			_, err := stet.Step(ctx, "step", func(context.Context) (int64, error) {
				n := done.Add(1)
				switch n {
				case runs * 10:
					close(early)
				case runs * 40:
					close(late)
				}
				return n, nil
			})
			if err != nil {
				return 0, err
			}
		}
		return steps, nil
	})
	e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{flow}, Build: "b",
		LeaseTTL: 20 * time.Second, OnLoss: func(err error) { losses <- err },
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
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
	reach := func(n int, reached <-chan struct{}) {
		t.Helper()
		select {
		case <-reached:
		case <-time.After(patience):
			t.Fatalf("%d of %d steps are done", done.Load(), n)
		}
	}
	reach(runs*10, early)
	restore, err := save()
	if err != nil {
		t.Fatal(err)
	}
	reach(runs*40, late) // what is done between is lost
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		id := fmt.Sprint("run-", i)
		limited, cancel := context.WithTimeout(t.Context(), patience)
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
