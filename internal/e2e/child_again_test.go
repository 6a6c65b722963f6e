package e2e_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestChildThatWasDroppedIsBegunAgain: a child is cancelled because a step beside it
// has failed, or because its parent is cancelled or terminated. When the parent is retried or
// rewound and awaits it again, it gets another child, and a result.
func TestChildThatWasDroppedIsBegunAgain(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		var broken atomic.Bool
		child := stet.Define("child", func(ctx stet.Context, n int) (int, error) {
			_, err := word.Receive(ctx)
			return n + 1, err
		})
		parent := stet.Define("parent", func(ctx stet.Context, waits bool) (int, error) {
			scope := stet.Go(ctx, "child", func(ctx stet.Context) (int, error) { return child.Call(ctx, 41) })
			step := stet.Go(ctx, "step", func(ctx stet.Context) (int, error) {
				if waits {
					if err := stet.Do(ctx, "s", func(context.Context) error { return nil }); err != nil {
						return 0, err
					}
					_, err := never.Receive(ctx)
					return 0, err
				}
				return stet.Step(ctx, "s", func(context.Context) (int, error) {
					if broken.Load() {
						return 0, stet.Permanent(errors.New("broken"))
					}
					return 0, nil
				})
			})
			got, err := stet.All(ctx, scope, step)
			if err != nil {
				return 0, err
			}
			return got[0], nil
		})
		cfg.Workflows = []stet.Definition{child, parent}
		serve(t, cfg)
		e := client(t, s, child, parent)
		ctx := testContext(t)
		children := func(id string, status store.Status) []store.Run {
			t.Helper()
			for {
				info, err := e.Runs().Info(ctx, id)
				if err != nil {
					t.Fatal(err)
				}
				page, err := e.Store().List(ctx, store.Filter{Parent: info.Number, Statuses: []store.Status{status}})
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Runs) > 0 {
					return page.Runs
				}
			}
		}
		for _, end := range []string{"failed", "cancelled", "terminated"} {
			waits := end != "failed"
			broken.Store(true)
			r, err := parent.Start(ctx, e, waits)
			if err != nil {
				t.Fatal(err)
			}
			if waits {
				first := children(r.ID(), store.Suspended)[0]
				waitStatus(t, e, r.ID(), store.Suspended)
				verb, to := e.Runs().Cancel, "[cancel]" // to before it was cancelled
				if end == "terminated" {
					verb, to = e.Runs().Terminate, "step/s"
				}
				if _, err := verb(ctx, r.ID(), stet.Act{}); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Wait(ctx); !errors.Is(err, stet.ErrCancelled) {
					t.Fatalf("the %s run ends with %v", end, err)
				}
				if _, err := e.Runs().Wait(ctx, first.ID); err != nil {
					t.Fatal(err)
				}
				_, err = e.Runs().Rewind(ctx, r.ID(), to, stet.Act{})
			} else {
				if _, err := r.Wait(ctx); err == nil {
					t.Fatal("the step has not failed")
				}
				broken.Store(false)
				_, err = e.Runs().Retry(ctx, r.ID(), stet.Act{})
			}
			if err != nil {
				t.Fatal(err)
			}
			second := children(r.ID(), store.Suspended)[0]
			if err := word.Send(ctx, e, second.ID, "go"); err != nil {
				t.Fatal(err)
			}
			if waits {
				if err := never.Send(ctx, e, r.ID(), "go"); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := r.Wait(ctx); err != nil || got != 42 {
				t.Errorf("%s: the run gives %d, %v", end, got, err)
			}
		}
	})
}
