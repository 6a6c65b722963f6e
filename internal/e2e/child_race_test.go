package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// manyChildren starts children all at once and adds up what they return.
var manyChildren = stet.Define("many", func(ctx stet.Context, n int) (int, error) {
	others := make([]*stet.RunFuture[int], n)
	for i := range others {
		var err error
		if others[i], err = square.Go(ctx, i); err != nil {
			return 0, err
		}
	}
	sum := 0
	for _, o := range others {
		v, err := o.Await(ctx)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
})

// TestThousandChildrenInParallel awaits 1,000 children at once, with more and with
// less memory than they need. Each wake comes, and comes once.
func TestThousandChildrenInParallel(t *testing.T) {
	t.Parallel()
	n := 1000
	if testing.Short() {
		n = 200
	}
	want := 0
	for i := range n {
		want += i * i
	}
	for _, room := range []int{0, 50} {
		t.Run(fmt.Sprint("room ", room), func(t *testing.T) {
			forEachStore(t, func(t *testing.T, cfg stet.Config, g *gated, _ store.Store) {
				cfg.Workflows, cfg.MaxRuns = []stet.Definition{manyChildren, square}, room
				e := serve(t, cfg)
				ctx := testContext(t)
				r, err := manyChildren.Start(ctx, e, n)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := r.Wait(ctx); err != nil || got != want {
					t.Fatalf("got %d, %v; want %d", got, err, want)
				}
				runs := children(t, e, r.ID())
				if len(runs) != n {
					t.Errorf("there are %d children; want %d", len(runs), n)
				}
				info, err := e.Runs().Info(ctx, r.ID())
				if err != nil {
					t.Fatal(err)
				}
				if left, err := g.Inbox(ctx, info.Number); err != nil || len(left) != 0 {
					t.Errorf("%d items are left in the parent's inbox (%v)", len(left), err)
				}
			})
		})
	}
}

// ends reports whether a turn of the batch ends a run with a parent, or without.
func ends(b *store.Batch, status store.Status, withParent bool) bool {
	for _, turn := range b.Turns {
		if u := turn.Update; u != nil && u.Status == status {
			tells := false
			for _, c := range u.Sends {
				tells = tells || c.Item != nil && c.Item.Kind == store.ItemEnd
			}
			if tells == withParent {
				return true
			}
		}
	}
	return false
}

// TestCancelOfTheChildAgainstItsEnd puts a cancel of the child in while its end is being committed. The parent gets the
// child's actual end, and no notice of the end that was held back.
func TestCancelOfTheChildAgainstItsEnd(t *testing.T) {
	t.Parallel()
	w := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
		_, err := square.Call(ctx, 3)
		if errors.Is(err, stet.ErrCancelled) {
			return "cancelled", nil
		}
		return "succeeded", err
	})
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			forEachStore(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
				ctx := testContext(t)
				outside := client(t, s, w)
				var once sync.Once
				cancel := func(b *store.Batch) {
					if !ends(b, store.Succeeded, true) {
						return
					}
					once.Do(func() {
						run, ok := theChild(ctx, t, outside)
						if !ok {
							return
						}
						id := "cancel"
						if _, _, err := s.Apply(ctx, []store.Command{{RunID: run.ID,
							Item: &store.Item{Kind: store.ItemCancel, ID: id, Origin: id}}}); err != nil {
							t.Error(err)
						}
					})
				}
				if when == "before" {
					g.beforeCommit = cancel
				} else {
					g.afterCommit = cancel
				}
				cfg.Workflows = []stet.Definition{w, square}
				e := serve(t, cfg)
				r, err := w.Start(ctx, e, 0)
				if err != nil {
					t.Fatal(err)
				}
				got, err := r.Wait(ctx)
				if err != nil {
					t.Fatal(err)
				}
				child, _ := theChild(ctx, t, outside)
				if want := map[string]string{"before": "cancelled", "after": "succeeded"}[when]; got != want ||
					child.Status.String() != want {
					t.Errorf("the parent sees the child %s, which is %s; want %s", got, child.Status, want)
				}
			})
		})
	}
}

// theChild returns the one run with a parent.
func theChild(ctx context.Context, t *testing.T, e *stet.Engine) (store.Run, bool) {
	page, err := e.Store().List(ctx, store.Filter{})
	if err != nil {
		t.Error(err)
	}
	for _, r := range page.Runs {
		if r.Parent != 0 {
			return r, true
		}
	}
	t.Error("there is no child")
	return store.Run{}, false
}

// TestCancelOfTheParentAgainstTheChildsEnd puts a cancel of the parent in while
// the end of its child is being committed, before and after.
func TestCancelOfTheParentAgainstTheChildsEnd(t *testing.T) {
	t.Parallel()
	w := stet.Define("parent", func(ctx stet.Context, _ int) (int, error) {
		if _, err := square.Call(ctx, 3); err != nil {
			return 0, err
		}
		_, err := told.Call(ctx, "") // for ever, but for the cancel
		return 0, err
	})
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			forEachStore(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
				ctx := testContext(t)
				outside := client(t, s, w)
				var once sync.Once
				cancel := func(b *store.Batch) {
					if ends(b, store.Succeeded, true) {
						once.Do(func() {
							if _, _, err := s.Apply(ctx, []store.Command{{RunID: "p",
								Item: &store.Item{Kind: store.ItemCancel, ID: "c", Origin: "c"}}}); err != nil {
								t.Error(err)
							}
						})
					}
				}
				if when == "before" {
					g.beforeCommit = cancel
				} else {
					g.afterCommit = cancel
				}
				cfg.Workflows = []stet.Definition{w, square, told}
				e := serve(t, cfg)
				r, err := w.Start(ctx, e, 0, stet.ID("p"))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.Wait(ctx); !errors.Is(err, stet.ErrCancelled) {
					t.Fatalf("the parent ends with %v", err)
				}
				for _, child := range children(t, e, "p") {
					want := store.Succeeded
					if child.Workflow == "told" {
						want = store.Cancelled
					}
					waitStatus(t, outside, child.ID, want)
				}
			})
		})
	}
}

// TestWatchesAgainstEnds lets runs watch others that are ending at the same time. Every watch is answered, and without
// the claim that comes by the poll.
func TestWatchesAgainstEnds(t *testing.T) {
	t.Parallel()
	w := stet.Define("watching", func(ctx stet.Context, id string) (int, error) {
		return stet.Await[int](ctx, "the other", id)
	})
	rounds, each := 30, 10
	if testing.Short() {
		rounds = 5
	}
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		ctx := testContext(t)
		cfg.Workflows, cfg.Poll = []stet.Definition{w, square}, time.Hour
		e := serve(t, cfg)
		for round := range rounds {
			targets, watchers := make([]int, each), make([]string, 3*each)
			for i := range watchers {
				watchers[i] = fmt.Sprintf("%d-%d", round, i%each)
			}
			if _, err := square.StartAll(ctx, e, targets, func(i int) []stet.StartOption {
				return []stet.StartOption{stet.ID(fmt.Sprintf("%d-%d", round, i))}
			}); err != nil {
				t.Fatal(err)
			}
			watching, err := w.StartAll(ctx, e, watchers, nil) // while those end
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range watching {
				if _, err := r.Wait(ctx); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
			}
		}
	})
}

// TestFamilyInHandTakesNoClaims: what starts a child claims it in the same commit, so that no later claim brings one
// that is new to the process.
func TestFamilyInHandTakesNoClaims(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, g *gated, _ store.Store) {
		cfg.Workflows = []stet.Definition{manyChildren, square}
		var claimed atomic.Int64
		g.afterClaim = func(c *store.Claims) {
			for i := range c.Runs {
				if c.Runs[i].New && c.Runs[i].Run.ID != "parent" { // which was perhaps started before any shard was held
					claimed.Add(1)
				}
			}
		}
		e := serve(t, cfg)
		ctx := testContext(t)
		r, err := manyChildren.Start(ctx, e, 20, stet.ID("parent"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if n := claimed.Load(); n > 0 {
			t.Errorf("of 20 children %d were claimed after their start", n)
		}
	})
}
