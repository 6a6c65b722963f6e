package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestContinueAsNewElsewhere is a programmer's error, which the run or the step
// says.
func TestContinueAsNewElsewhere(t *testing.T) {
	t.Parallel()
	again := stet.ContinueAsNew(1)
	other := stet.Define("other", func(stet.Context, int) (int, error) { return 0, nil })
	for name, c := range map[string]struct {
		code func(stet.Context) (int, error)
		want string
	}{
		"branch": {func(ctx stet.Context) (int, error) {
			return stet.Go(ctx, "b", func(stet.Context) (int, error) { return 0, again }).Await(ctx)
		}, "returned by a branch b"},
		"wrapped in a branch": {func(ctx stet.Context) (int, error) {
			return stet.Go(ctx, "b", func(stet.Context) (int, error) { return 0, fmt.Errorf("so: %w", again) }).Await(ctx)
		}, "returned by a branch b"},
		"map": {func(ctx stet.Context) (int, error) {
			_, err := stet.Map(ctx, "m", []int{1}, func(stet.Context, int) (int, error) { return 0, again })
			return 0, err
		}, "returned by a branch of map m"},
		"loop": {func(ctx stet.Context) (int, error) {
			return stet.Loop(ctx, "l", 0, func(_ stet.Context, _ int) (n next, err error) { return n, again })
		}, "returned by an iteration of loop l"},
		"step": {func(ctx stet.Context) (int, error) {
			return 0, stet.Do(ctx, "s", func(context.Context) error { return again })
		}, "returned by a step"},
		"input of another type": {func(stet.Context) (int, error) { return 0, stet.ContinueAsNew("one") },
			"expected an input of type int, found string"},
		"input that cannot be encoded": {func(stet.Context) (int, error) {
			return 0, stet.ContinueAs(stet.Ref[func(), int]("w"), func() {})
		}, "encode func()"},
		"large input": {func(stet.Context) (int, error) {
			return 0, stet.ContinueAs(stet.Ref[string, int]("w"), strings.Repeat("i", 3<<20))
		}, "more than the limit"},
		"workflow that is not registered": {func(stet.Context) (int, error) { return 0, stet.ContinueAs(other, 1) },
			`workflow "other" is not registered`},
	} {
		t.Run(name, func(t *testing.T) {
			w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) { return c.code(ctx) })
			e := serve(t, stet.Config{Workflows: []stet.Definition{w}, Logger: slog.New(slog.DiscardHandler)})
			if _, err := run(t, e, w, 0); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want %q", err, c.want)
			}
		})
	}
}

// TestContinueAsNewWrapped counts as it is.
func TestContinueAsNewWrapped(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(_ stet.Context, n int) (int, error) {
		if n < 3 {
			return 0, fmt.Errorf("more to do: %w", stet.ContinueAsNew(n+1))
		}
		return n, nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	if got, err := run(t, e, w, 0); got != 3 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
}

// TestWhatContinuesWithARun: its ID, its start, its tags and headers are those of
// the first incarnation, its input, steps, promises and random numbers its own.
func TestWhatContinuesWithARun(t *testing.T) {
	t.Parallel()
	tokens := make(chan string, 1)
	var keys, randoms []string
	w := stet.Define("w", func(ctx stet.Context, n int) (string, error) {
		err := stet.Do(ctx, "s", func(c context.Context) error {
			keys = append(keys, stet.IdempotencyKey(c))
			return nil
		})
		randoms = append(randoms, stet.UUID(ctx))
		if err != nil || n == 3 {
			return fmt.Sprint("incarnation ", n), err
		}
		p, err := stet.NewPromise[int](ctx, "p")
		if err != nil {
			return "", err
		}
		if n == 0 {
			err := stet.Do(ctx, "hand out", func(context.Context) error { tokens <- p.Token(); return nil })
			if err != nil {
				return "", err
			}
		}
		return "", stet.ContinueAsNew(n + 1)
	})
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			keys, randoms = nil, nil
			e := serve(t, stet.Config{Store: s.open(t)(), Workflows: []stet.Definition{w}})
			ctx := testContext(t)
			r, err := w.Start(ctx, e, 0, stet.ID("r"))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := r.Wait(ctx); got != "incarnation 3" || err != nil {
				t.Fatalf("got %q, %v", got, err)
			}
			if err := e.Resolve(ctx, <-tokens, 1); !errors.Is(err, stet.ErrTerminal) {
				t.Errorf("the promise of the first incarnation: %v", err)
			}
			info, err := e.Runs().Info(ctx, "r")
			if err != nil || info.Incarnation != 3 {
				t.Fatalf("the run is %+v, %v", info, err)
			}
			for _, list := range [][]string{keys, randoms} {
				seen := map[string]bool{}
				for _, k := range list {
					seen[k] = true
				}
				if len(list) != 4 || len(seen) != 4 {
					t.Errorf("four incarnations have %q", list)
				}
			}
			history, err := e.Runs().History(ctx, "r", stet.HistoryQuery{})
			if err != nil || len(history) != 1 {
				t.Errorf("the last incarnation has %d entries, %v", len(history), err)
			}
			// A start that is repeated is compared with the first input.
			if _, err := w.Start(ctx, e, 0, stet.ID("r")); err != nil {
				t.Errorf("the same start again: %v", err)
			}
			if _, err := w.Start(ctx, e, 3, stet.ID("r")); !errors.Is(err, stet.ErrExists) {
				t.Errorf("a start with the present input: %v", err)
			}
		})
	}
}

// TestStartAfterContinueAs: a run that goes on as another workflow was still started
// as the first one.
func TestStartAfterContinueAs(t *testing.T) {
	t.Parallel()
	second := stet.Define("second", func(stet.Context, string) (int, error) { return 2, nil })
	first := stet.Define("first", func(stet.Context, int) (int, error) { return 0, stet.ContinueAs(second, "on") })
	e := serve(t, stet.Config{Workflows: []stet.Definition{first, second}})
	ctx := testContext(t)
	for range 2 {
		r, err := first.Start(ctx, e, 7, stet.ID("r"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Wait(ctx); got != 2 || err != nil {
			t.Fatalf("got %d, %v", got, err)
		}
	}
	if _, err := second.Start(ctx, e, "on", stet.ID("r")); !errors.Is(err, stet.ErrExists) {
		t.Errorf("a start of the second workflow: %v", err)
	}
	info, err := e.Runs().Info(ctx, "r")
	if err != nil || info.Workflow != "second" {
		t.Errorf("the run is %+v, %v", info, err)
	}
}

// TestMessagesAcrossIncarnations: each message sent while a run continues as new, again and again, is received once,
// and those of one sender in their order.
func TestMessagesAcrossIncarnations(t *testing.T) {
	t.Parallel()
	const letters = 60
	type state struct {
		N    int
		Text string
	}
	w := stet.Define("w", func(ctx stet.Context, s state) (string, error) {
		for range 1 + s.N%3 {
			v, err := word.Receive(ctx, stet.Named(fmt.Sprint("letter ", s.N)))
			if err != nil {
				return "", err
			}
			s.N, s.Text = s.N+1, s.Text+v+" "
			if s.N == letters {
				return s.Text, nil
			}
		}
		return "", stet.ContinueAsNew(s)
	})
	forEachStore(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
		cfg.Workflows = []stet.Definition{w}
		e, outside := serve(t, cfg), client(t, s, w)
		ctx := testContext(t)
		r, err := w.Start(ctx, e, state{}, stet.ID("r"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range letters {
			from := e
			if i%2 == 0 {
				from = outside
			}
			if err := word.Send(ctx, from, "r", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := r.Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		next := [2]int{0, 1} // of each sender
		for _, letter := range strings.Fields(got) {
			i, err := strconv.Atoi(letter)
			if err != nil || i != next[i%2] {
				t.Fatalf("letter %s is there twice or too early: %s", letter, got)
			}
			next[i%2] += 2
		}
		if next != [2]int{letters, letters + 1} {
			t.Errorf("letters are lost: %s", got)
		}
	})
}

// TestCancelWhileContinuing is seen by this incarnation or the next one, wherever it
// comes in between.
func TestCancelWhileContinuing(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, n int) (int, error) {
		if err := stet.Do(ctx, "s", func(context.Context) error { return nil }); err != nil {
			return 0, err
		}
		return 0, stet.ContinueAsNew(n + 1)
	})
	for _, when := range []string{"before the commit", "after the commit", "before the load"} {
		t.Run(when, func(t *testing.T) {
			forEachStore(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
				ctx := testContext(t)
				outside := client(t, s, w)
				answered := make(chan error, 1)
				var once sync.Once
				var incarnations atomic.Int64
				cancel := func() {
					once.Do(func() {
						go func() {
							_, err := outside.Runs().Cancel(ctx, "r", stet.Act{Why: "enough"})
							answered <- err
						}()
						untilItem(t, s, "r", store.ItemCancel)
					})
				}
				continues := func(b *store.Batch) bool {
					for _, turn := range b.Turns {
						if turn.Update != nil && turn.Update.Continue != nil {
							return incarnations.Add(1) >= 3
						}
					}
					return false
				}
				switch when {
				case "before the commit":
					g.beforeCommit = func(b *store.Batch) {
						if continues(b) {
							cancel()
						}
					}
				case "after the commit":
					g.afterCommit = func(b *store.Batch) {
						if continues(b) {
							cancel()
						}
					}
				default:
					g.beforeLoad = func([]store.RunNo) { cancel() }
				}
				cfg.Workflows = []stet.Definition{w}
				e := serve(t, cfg)
				r, err := w.Start(ctx, e, 0, stet.ID("r"))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.Wait(ctx); !errors.Is(err, stet.ErrCancelled) {
					t.Errorf("the run gives %v", err)
				}
				if err := <-answered; err != nil {
					t.Errorf("the cancel gives %v", err)
				}
			})
		})
	}
}

// TestLongestTimeAcrossIncarnations counts from the first start.
func TestLongestTimeAcrossIncarnations(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, n int) (int, error) {
		if err := stet.Sleep(ctx, "nap", 20*time.Millisecond); err != nil {
			return 0, err
		}
		return 0, stet.ContinueAsNew(n + 1)
	}, stet.MaxRunTime(100*time.Millisecond))
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	r, err := w.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(ctx); !errors.Is(err, stet.ErrCancelled) ||
		!strings.Contains(err.Error(), "ran longer than 100ms") {
		t.Errorf("got %v", err)
	}
}

// TestCommitsOfAnIncarnation: with one step an incarnation takes two commits at
// most, and touches the run's row once.
func TestCommitsOfAnIncarnation(t *testing.T) {
	t.Parallel()
	const incarnations = 100
	w := stet.Define("w", func(ctx stet.Context, n int) (int, error) {
		n, err := stet.Step(ctx, "s", func(context.Context) (int, error) { return n + 1, nil })
		if err != nil || n == incarnations {
			return n, err
		}
		return 0, stet.ContinueAsNew(n)
	})
	forEachStore(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
		var commits, updates, entries, claims atomic.Int64
		g.afterCommit = func(b *store.Batch) {
			if len(b.Turns) == 0 {
				return
			}
			commits.Add(1)
			for _, turn := range b.Turns {
				if turn.Update != nil {
					updates.Add(1)
				}
				entries.Add(int64(len(turn.Entries)))
			}
		}
		g.beforeClaim = func() { claims.Add(1) }
		cfg.Workflows = []stet.Definition{w}
		e := serve(t, cfg)
		if got, err := run(t, e, w, 0); got != incarnations || err != nil {
			t.Fatalf("got %d, %v", got, err)
		}
		if n := commits.Load(); n > 2*incarnations {
			t.Errorf("%d incarnations take %d commits", incarnations, n)
		}
		if n := updates.Load(); n > incarnations+2 {
			t.Errorf("%d incarnations update the run %d times", incarnations, n)
		}
		if n := entries.Load(); n > 2 {
			t.Errorf("%d entries are written for incarnations that have ended", n)
		}
		t.Logf("%d commits, %d updates, %d entries, %d claims", commits.Load(), updates.Load(), entries.Load(), claims.Load())
		if n := claims.Load(); n > incarnations/2 {
			t.Errorf("%d claims; a run that continues needs none", n)
		}
	})
}

// TestUpdatesAcrossIncarnations: one that was not answered fails in the commit that
// ends its incarnation; one that is sent afterwards is the next incarnation's.
func TestUpdatesAcrossIncarnations(t *testing.T) {
	t.Parallel()
	ask := stet.Update[int, int]("ask")
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			received := make(chan struct{})
			w := stet.Define("w", func(ctx stet.Context, n int) (int, error) {
				request, err := ask.Receive(ctx)
				if err != nil {
					return 0, err
				}
				if n == 1 {
					return request.Value, request.Answer(ctx, 10*request.Value)
				}
				if err := stet.Do(ctx, "tell", func(context.Context) error { close(received); return nil }); err != nil {
					return 0, err
				}
				return 0, stet.ContinueAsNew(n + 1)
			})
			e := serve(t, stet.Config{Store: s.open(t)(), Workflows: []stet.Definition{w}})
			ctx := testContext(t)
			r, err := w.Start(ctx, e, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ask.Call(ctx, e, r.ID(), 1); !errors.Is(err, stet.ErrUnanswered) ||
				!strings.Contains(err.Error(), "continued as new") {
				t.Errorf("the request to the first incarnation: %v", err)
			}
			<-received
			if got, err := ask.Call(ctx, e, r.ID(), 2); got != 20 || err != nil {
				t.Errorf("the request to the second incarnation: %d, %v", got, err)
			}
			if got, err := r.Wait(ctx); got != 2 || err != nil {
				t.Errorf("the run gives %d, %v", got, err)
			}
		})
	}
}

// TestChildrenOfFormerIncarnations: an awaited child is cancelled with its
// incarnation, one that was left goes on, and neither's end reaches the next one,
// which has children of its own at the same places.
func TestChildrenOfFormerIncarnations(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
		ids := make(chan string, 4)
		child := stet.Define("child", func(ctx stet.Context, n int) (int, error) {
			_, err := word.Receive(ctx)
			return n, err
		})
		w := stet.Define("w", func(ctx stet.Context, n int) (int, error) {
			left, err := child.Go(ctx, 100+n, stet.Named("left"), stet.LeaveChild)
			if err != nil {
				return 0, err
			}
			awaited, err := child.Go(ctx, 200+n, stet.Named("awaited"))
			if err != nil {
				return 0, err
			}
			leftID, awaitedID := left.RunID(ctx), awaited.RunID(ctx)
			err = stet.Do(ctx, "tell", func(context.Context) error {
				ids <- leftID
				ids <- awaitedID
				return nil
			})
			if err != nil {
				return 0, err
			}
			if n == 0 {
				return 0, stet.ContinueAsNew(1)
			}
			a, err := left.Await(ctx)
			if err != nil {
				return 0, err
			}
			b, err := awaited.Await(ctx)
			return 1000*a + b, err
		})
		cfg.Workflows = []stet.Definition{w, child}
		e := serve(t, cfg)
		ctx := testContext(t)
		r, err := w.Start(ctx, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		oldLeft, oldAwaited, left, awaited := <-ids, <-ids, <-ids, <-ids
		if oldLeft == left || oldAwaited == awaited {
			t.Error("the second incarnation meets the children of the first")
		}
		if _, err := child.Handle(e, oldAwaited).Wait(ctx); !errors.Is(err, stet.ErrCancelled) {
			t.Errorf("the awaited child of the first incarnation gives %v", err)
		}
		for _, id := range []string{oldLeft, left, awaited} {
			if err := word.Send(ctx, e, id, "go on"); err != nil {
				t.Fatal(err)
			}
			if id == oldLeft {
				if got, err := child.Handle(e, id).Wait(ctx); got != 100 || err != nil {
					t.Errorf("the child that was left gives %d, %v", got, err)
				}
			}
		}
		if got, err := r.Wait(ctx); got != 101201 || err != nil {
			t.Errorf("the run gives %d, %v", got, err)
		}
	})
}
