package stet_test

import (
	"context"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// TestAShapeSaysHowMuchOfItsBudgetAHistoryHasUsed has a run with three steps of some bytes, asked of an engine
// with limits of its own.
func TestAShapeSaysHowMuchOfItsBudgetAHistoryHasUsed(t *testing.T) {
	db := memory.New()
	t.Cleanup(func() { _ = db.Close() })
	large := stet.Define("large", func(ctx stet.Context, n int) (int, error) {
		for range n {
			if _, err := stet.Step(ctx, "read", func(context.Context) ([]byte, error) {
				return make([]byte, 900), nil
			}); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	engine, err := stet.New(t.Context(), stet.Config{
		Store: db, Workflows: []stet.Definition{large}, MaxEntries: 10, MaxBytes: 5000,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	run, err := large.Start(t.Context(), engine, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	shape, err := engine.Runs().Shape(t.Context(), run.ID())
	if err != nil {
		t.Fatal(err)
	}
	u := shape.Used
	if u.Entries != 3 || u.MaxEntries != 10 || u.MaxBytes != 5000 || u.Bytes < 3*900 || u.Bytes >= 5000 {
		t.Errorf("expected 3 of 10 entries, and 2700 to 5000 of 5000 bytes; found %+v", u)
	}
	history, err := engine.Runs().History(t.Context(), run.ID(), stet.HistoryQuery{})
	if err != nil || len(history) != u.Entries {
		t.Errorf("expected the entries of the history, found %d (%v)", len(history), err)
	}
}
