package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestChildThatFailsItsScopeCrashesEverywhere: whatever commit the process dies at, the scope
// that has started a failing child is undone and ends with its failure, and the code around
// goes on.
func TestChildThatFailsItsScopeCrashesEverywhere(t *testing.T) {
	t.Parallel()
	watch := stet.Define("watch", func(ctx stet.Context, limit int) (int, error) {
		return 0, fmt.Errorf("warmer than %d", limit)
	}, stet.FailScope)
	ship := stet.Define("ship", func(ctx stet.Context, _ string) (string, error) {
		_, err := stet.Saga(ctx, "by lorry", func(ctx stet.Context) (string, error) {
			if _, err := say(ctx, "load", "lorry", stet.UndoDo(func(context.Context) error { return nil })); err != nil {
				return "", err
			}
			if _, err := watch.Go(ctx, 8); err != nil {
				return "", err
			}
			_, err := never.Receive(ctx)
			return "", err
		})
		if run := (*stet.RunError)(nil); !errors.As(err, &run) || !strings.Contains(err.Error(), "warmer than 8") {
			return "", fmt.Errorf("the saga ends with %w", err)
		}
		_, err = watch.Call(ctx, 4, stet.Named("a call returns it"))
		if run := (*stet.RunError)(nil); !errors.As(err, &run) {
			return "", fmt.Errorf("the call returns %w", err)
		}
		other, err := watch.Go(ctx, 2, stet.FailAwaiter, stet.Named("this one does not"))
		if err != nil {
			return "", err
		}
		if _, err = other.Await(ctx); err == nil {
			return "", errors.New("the child has not failed")
		}
		return say(ctx, "train", "by train")
	})
	got, err := stettest.CrashEverywhere(t, ship, "",
		stettest.WithConfig(stet.Config{Workflows: []stet.Definition{watch}}),
		stettest.Checking(func(ctx context.Context, e *stet.Engine, id string) error {
			undone, _, err := undoneBy(ctx, e, id)
			if want := []string{"by lorry/load"}; err == nil && !slices.Equal(undone, want) {
				err = fmt.Errorf("undone were %q, want %q", undone, want)
			}
			return err
		}))
	if got != "by train" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestRunThatAChildHasFailed: it is retried like one that has awaited the child, rewound to
// before the failure, and forked; in each the child's end, when it comes again, counts again.
func TestRunThatAChildHasFailed(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		var broken atomic.Bool
		kid := stet.Define("kid", func(ctx stet.Context, _ int) (int, error) {
			return stet.Step(ctx, "s", func(context.Context) (int, error) {
				if broken.Load() {
					return 0, stet.Permanent(errors.New("broken"))
				}
				return 7, nil
			})
		})
		parent := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
			if _, err := say(ctx, "first", "a"); err != nil {
				return "", err
			}
			if _, err := kid.Go(ctx, 1, stet.FailScope); err != nil {
				return "", err
			}
			return word.Receive(ctx)
		})
		cfg.Workflows = []stet.Definition{kid, parent}
		serve(t, cfg)
		e := client(t, s, kid, parent)
		ctx := testContext(t)
		broken.Store(true)
		r := begin(t, e, parent, 1)
		failed := func(id string) {
			t.Helper()
			if _, err := parent.Handle(e, id).Wait(ctx); err == nil || !strings.Contains(err.Error(), "broken") {
				t.Fatalf("the run ends with %v, want what its child has failed with", err)
			}
			replays(t, e, id)
		}
		failed(r.ID())
		if _, err := e.Runs().Rewind(ctx, r.ID(), "first", stet.Act{}); err != nil { // starts another child
			t.Fatal(err)
		}
		failed(r.ID())
		if _, err := e.Runs().Rewind(ctx, r.ID(), "kid", stet.Act{}); err != nil { // asks the same one again
			t.Fatal(err)
		}
		failed(r.ID())
		fork, err := e.Runs().Fork(ctx, r.ID(), "kid", stet.Act{})
		if err != nil {
			t.Fatal(err)
		}
		failed(fork)
		broken.Store(false)
		if _, err := e.Runs().Retry(ctx, r.ID(), stet.Act{}); err != nil {
			t.Fatal(err)
		}
		if err := word.Send(ctx, e, r.ID(), "done"); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Wait(ctx); got != "done" || err != nil {
			t.Errorf("the retried run ends with %q, %v", got, err)
		}
	})
}

// TestChildFailureIsChecked: what cannot be is refused.
func TestChildFailureIsChecked(t *testing.T) {
	t.Parallel()
	kid := stet.Define("kid", func(ctx stet.Context, n int) (int, error) { return n, nil })
	var errs []error
	parent := stet.Define("parent", func(ctx stet.Context, _ int) (int, error) {
		_, a := kid.Call(ctx, 1, stet.FailScope, stet.Named("a"))
		_, b := kid.Detach(ctx, 1, stet.FailScope, stet.Named("b"))
		_, c := kid.Go(ctx, 1, stet.ChildFailure(3), stet.Named("c"))
		errs = []error{a, b, c}
		return 0, nil
	})
	e := serve(t, stet.Config{Store: memory.New(), Workflows: []stet.Definition{kid, parent}})
	if _, err := run(t, e, parent, 0); err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if !errors.Is(err, stet.ErrInvalid) {
			t.Errorf("the start %d gives %v", i, err)
		}
	}
}

// TestRemovedChildThatFailsItsScope: Removed in the place of a child that fails its scope. While
// the child works the run goes on without it, and the child's failure fails nothing any more.
// Where the child has failed the scope in the recorded history, code without it does not fit:
// the run stalls, and what was undone is not undone again.
func TestRemovedChildThatFailsItsScope(t *testing.T) {
	t.Parallel()
	for _, failed := range []bool{false, true} {
		t.Run(fmt.Sprintf("failed=%t", failed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var undone atomic.Int64
				kid := stet.Define("kid", func(ctx stet.Context, _ int) (int, error) {
					if _, err := counter.Receive(ctx); err != nil {
						return 0, err
					}
					return 0, errors.New("broken")
				}, stet.FailScope)
				ship := func(removed bool) *stet.Workflow[int, string] {
					return stet.Define("ship", func(ctx stet.Context, _ int) (string, error) {
						got, err := stet.Saga(ctx, "lorry", func(ctx stet.Context) (string, error) {
							if _, err := say(ctx, "load", "lorry", stet.UndoDo(func(context.Context) error {
								undone.Add(1)
								return nil
							})); err != nil {
								return "", err
							}
							if removed {
								stet.Removed(ctx, "kid")
							} else if _, err := kid.Go(ctx, 1); err != nil {
								return "", err
							}
							return word.Receive(ctx)
						})
						if err != nil {
							got, err = "by train", nil
						}
						if _, again := word.Receive(ctx, stet.Named("end")); again != nil {
							return "", again
						}
						return got, err
					})
				}
				s := memory.New()
				p := startProcess(t, s, stet.Config{Workflows: []stet.Definition{ship(false), kid}})
				begin(t, p.Engine, ship(false), 1, stet.ID("r"))
				time.Sleep(time.Minute)
				page, _, err := p.Runs().List(t.Context(), store.Filter{Workflows: []string{"kid"}})
				if err != nil || len(page) != 1 {
					t.Fatal(page, err)
				}
				fail := func() {
					t.Helper()
					if err := counter.Send(t.Context(), p.Engine, page[0].ID, 1); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute)
				}
				if failed {
					fail()
				}
				p.bury(t)

				p = startProcess(t, s.Join(), stet.Config{Workflows: []stet.Definition{ship(true), kid}})
				time.Sleep(time.Minute)
				if !failed {
					fail()
				}
				for _, text := range []string{"goods", "end"} {
					if err := word.Send(t.Context(), p.Engine, "r", text); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute)
				info, err := p.Runs().Info(t.Context(), "r")
				if err != nil {
					t.Fatal(err)
				}
				want, wantUndone := store.Succeeded, int64(0)
				if failed {
					want, wantUndone = store.Stalled, 1
				}
				if info.Status != want || undone.Load() != wantUndone {
					t.Errorf("it is %s: %s; undone %d times; want %s and %d", info.Status, info.Reason, undone.Load(), want,
						wantUndone)
				}
				if failed && info.Cause != stet.CauseMismatch {
					t.Errorf("it has stalled for %s", info.Cause)
				}
				if got, ok, err := ship(true).Handle(p.Engine, "r").Result(t.Context()); !failed && got != "goods" {
					t.Errorf("it gave %q, %t, %v", got, ok, err)
				}
				p.bury(t)
			})
		})
	}
}
