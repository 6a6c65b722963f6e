package stet_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// TestReplaces: a later process with the name of one that lives takes its shards long before its leases end, and
// executes its runs. The former one ends with ErrReplaced, on a store with one slot and on one with many.
func TestReplaces(t *testing.T) {
	for name, options := range map[string][]memory.Option{"one slot": nil, "many slots": {memory.Slots(16)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := memory.New(options...)
				ctx, stop := context.WithCancel(t.Context())
				executed := make(chan string, 3)
				serve := func(which string) (e *stet.Engine, ended chan error, w *stet.Workflow[int, int]) {
					w = stet.Define("w", func(ctx stet.Context, n int) (int, error) {
						if err := stet.Do(ctx, "note", func(context.Context) error { executed <- which; return nil }); err != nil {
							return 0, err
						}
						return n, stet.Sleep(ctx, "rest", time.Minute)
					})
					e, err := stet.New(t.Context(), stet.Config{Store: db.Join(), Workflows: []stet.Definition{w}, Build: "b",
						Node: "web-0", Replaces: true, LeaseTTL: 4 * time.Minute, Logger: slog.New(slog.DiscardHandler)})
					if err != nil {
						t.Fatal(err)
					}
					ended = make(chan error, 1)
					go func() { ended <- e.Run(ctx) }()
					return e, ended, w
				}
				first, over, w := serve("first")
				run, err := w.Start(t.Context(), first, 1)
				if err != nil {
					t.Fatal(err)
				}
				if which := <-executed; which != "first" {
					t.Errorf("executed by the %s", which)
				}
				synctest.Wait()
				begun := time.Now()
				second, last, w := serve("second")
				run = w.Handle(second, run.ID())
				if got, err := run.Wait(t.Context()); err != nil || got != 1 {
					t.Errorf("the run: %d, %v", got, err)
				}
				if took := time.Since(begun); took > 65*time.Second {
					t.Errorf("it ended after %s; want some minute, long before the lease", took)
				}
				if _, err := w.Start(t.Context(), second, 2); err != nil {
					t.Fatal(err)
				}
				if which := <-executed; which != "second" {
					t.Errorf("then executed by the %s", which)
				}
				if err := <-over; !errors.Is(err, stet.ErrReplaced) {
					t.Errorf("the first ended with %v; want ErrReplaced", err)
				}
				stop()
				if err := <-last; err != nil {
					t.Errorf("the second ended with %v", err)
				}
			})
		})
	}
}

// TestReplacesWantsANode: the default name is another one for each process.
func TestReplacesWantsANode(t *testing.T) {
	_, err := stet.New(t.Context(), stet.Config{Store: memory.New(), Replaces: true})
	if !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("got %v; want ErrInvalid", err)
	}
}
