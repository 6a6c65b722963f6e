package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

var oneWord = stet.Define("one-word", func(ctx stet.Context, _ int) (string, error) { return word.Receive(ctx) })

func TestMessageSentWhileSuspending(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before the commit", "after the commit"} {
		t.Run(when, func(t *testing.T) {
			forEachStore(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
				ctx := testContext(t)
				cfg.Workflows = []stet.Definition{oneWord}
				outside := client(t, s, oneWord)
				var once sync.Once
				send := func(b *store.Batch) {
					if commits(b, store.Suspended) {
						once.Do(func() {
							if err := word.Send(ctx, outside, "r", "hello"); err != nil {
								t.Error(err)
							}
						})
					}
				}
				if when == "before the commit" {
					g.beforeCommit = send
				} else {
					g.afterCommit = send
				}
				e := serve(t, cfg)
				r, err := oneWord.Start(ctx, e, 0, stet.ID("r"))
				if err != nil {
					t.Fatal(err)
				}
				if got, err := r.Wait(ctx); err != nil || got != "hello" {
					t.Fatalf("got %q, %v", got, err)
				}
			})
		})
	}
}

func TestPromiseResolvedWhileSuspending(t *testing.T) {
	t.Parallel()
	var token atomic.Pointer[string]
	w := stet.Define("promise", func(ctx stet.Context, _ int) (string, error) {
		p, err := stet.NewPromise[string](ctx, "p")
		if err != nil {
			return "", err
		}
		text := p.Token()
		token.Store(&text)
		return p.Await(ctx)
	})
	for _, s := range testStores {
		for _, before := range []bool{true, false} {
			open := s.open(t)
			g := &gated{Store: open()}
			outside := client(t, open(), w)
			ctx := testContext(t)
			var once sync.Once
			resolve := func(b *store.Batch) {
				if commits(b, store.Suspended) {
					once.Do(func() {
						if err := outside.Resolve(ctx, *token.Load(), "kept"); err != nil {
							t.Error(err)
						}
					})
				}
			}
			if before {
				g.beforeCommit = resolve
			} else {
				g.afterCommit = resolve
			}
			e := serve(t, stet.Config{Store: g, Workflows: []stet.Definition{w}, MaxParkedBytes: stet.None, Poll: time.Minute})
			r, err := w.Start(ctx, e, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := r.Wait(ctx); err != nil || got != "kept" {
				t.Fatalf("before %v: got %q, %v", before, got, err)
			}
		}
	}
}

// TestCancelAgainstCompletion puts a cancel in while the end of the run is being
// committed. The verdict and the run's end agree.
func TestCancelAgainstCompletion(t *testing.T) {
	t.Parallel()
	w := stet.Define("quick", func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
	})
	for _, before := range []bool{true, false} {
		forEachStore(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
			ctx := testContext(t)
			outside := client(t, s, w)
			verdict := make(chan bool, 1)
			var once sync.Once
			cancel := func(b *store.Batch) {
				if !commits(b, store.Succeeded) {
					return
				}
				once.Do(func() {
					sent, answered := make(chan struct{}), make(chan struct{})
					probe := &gated{Store: s}
					go func() {
						ok, err := outside.Runs().Cancel(ctx, "r", stet.Act{Why: "late"})
						if err != nil && !errors.Is(err, stet.ErrTerminal) {
							t.Error(err)
						}
						verdict <- ok
						close(answered)
					}()
					go func() { // until the item is in the inbox, or is not going to be
						defer close(sent)
						for {
							select {
							case <-answered:
								return
							case <-ctx.Done():
								return
							default:
							}
							page, err := probe.List(ctx, store.Filter{IDs: []string{"r"}})
							if err != nil {
								return
							}
							items, err := probe.Inbox(ctx, page.Runs[0].No)
							if err != nil || len(items) > 0 {
								return
							}
						}
					}()
					<-sent
				})
			}
			if before {
				g.beforeCommit = cancel
			} else {
				g.afterCommit = cancel
			}
			cfg.Workflows = []stet.Definition{w}
			e := serve(t, cfg)
			r, err := w.Start(ctx, e, 0, stet.ID("r"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Wait(ctx)
			if cancelled := <-verdict; cancelled != errors.Is(err, stet.ErrCancelled) {
				t.Fatalf("the verdict is %v and the run ended with %v", cancelled, err)
			}
		})
	}
}

// TestTimerAgainstCancel cancels a run while the end of its sleep is being
// committed or claimed.
func TestTimerAgainstCancel(t *testing.T) {
	t.Parallel()
	w := stet.Define("sleeper", func(ctx stet.Context, _ int) (int, error) {
		if err := stet.Sleep(ctx, "s", 1100*time.Millisecond); err != nil {
			return 0, err
		}
		return 1, stet.Do(ctx, "after", func(context.Context) error { return nil })
	})
	forEachStoreInABubble(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
		ctx := testContext(t)
		outside := client(t, s, w)
		verdict := make(chan bool, 1)
		var suspended atomic.Bool
		var once sync.Once
		g.afterCommit = func(b *store.Batch) {
			if commits(b, store.Suspended) {
				suspended.Store(true)
			}
		}
		g.beforeClaim = func() {
			page, err := s.List(ctx, store.Filter{IDs: []string{"r"}})
			if err != nil || len(page.Runs) == 0 || page.Runs[0].WakeAt == 0 || time.Now().Before(page.Runs[0].WakeAt.Time()) {
				return
			}
			once.Do(func() { // the run is about to be claimed for the end of its sleep
				go func() {
					ok, err := outside.Runs().Cancel(ctx, "r", stet.Act{})
					if err != nil && !errors.Is(err, stet.ErrTerminal) {
						t.Error(err)
					}
					verdict <- ok
				}()
			})
		}
		cfg.Workflows = []stet.Definition{w}
		e := serve(t, cfg)
		r, err := w.Start(ctx, e, 0, stet.ID("r"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Wait(ctx)
		if cancelled := <-verdict; cancelled != errors.Is(err, stet.ErrCancelled) {
			t.Fatalf("the verdict is %v and the run ended with %v", cancelled, err)
		}
	})
}

// TestMessageAgainstDeadline has a message come in unnoticed before the deadline
// of the wait, or after it but before the deadline is handed over.
func TestMessageAgainstDeadline(t *testing.T) {
	t.Parallel()
	const within = 1200 * time.Millisecond
	w := stet.Define("deadline", func(ctx stet.Context, _ int) (string, error) {
		v, err := word.Receive(ctx, stet.Within(within))
		if errors.Is(err, stet.ErrTimeout) {
			return "timeout", nil
		}
		return v, err
	})
	for _, late := range []bool{false, true} {
		forEachStoreInABubble(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
			ctx := testContext(t)
			outside := client(t, s, w)
			var once sync.Once
			var deadline store.Time // 0: the run was not suspended yet
			isLate := func() bool {
				page, err := s.List(ctx, store.Filter{IDs: []string{"r"}})
				if err == nil && len(page.Runs) > 0 && deadline == 0 {
					deadline = stored.Waits(&page.Runs[0])
				}
				return deadline != 0 && time.Now().After(deadline.Time())
			}
			send := func() {
				once.Do(func() {
					if err := word.Send(ctx, outside, "r", "hello"); err != nil {
						t.Error(err)
					}
				})
			}
			g.deaf.Store(true)
			if late {
				g.beforeClaim = func() {
					if isLate() {
						send()
					}
				}
			} else {
				g.afterCommit = func(b *store.Batch) {
					if commits(b, store.Suspended) {
						send()
					}
				}
			}
			cfg.Workflows = []stet.Definition{w}
			e := serve(t, cfg)
			r, err := w.Start(ctx, e, 0, stet.ID("r"))
			if err != nil {
				t.Fatal(err)
			}
			want := "hello"
			if late {
				want = "timeout"
			}
			if got, err := r.Wait(ctx); err != nil || got != want {
				t.Fatalf("late %v: got %q, %v; want %q", late, got, err, want)
			}
		})
	}
}

// TestLateTimerOfEarlierWait has a deadline pass whose wait has got its message:
// the next wait does not see it.
func TestLateTimerOfEarlierWait(t *testing.T) {
	t.Parallel()
	w := stet.Define("two-waits", func(ctx stet.Context, _ int) (string, error) {
		a, err := word.Receive(ctx, stet.Within(1200*time.Millisecond))
		if err != nil {
			return "", err
		}
		b, err := word.Receive(ctx, stet.Named("second"), stet.Within(time.Hour))
		return a + b, err
	})
	forEachStoreInABubble(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
		ctx := testContext(t)
		cfg.Workflows = []stet.Definition{w}
		e := serve(t, cfg)
		r, err := w.Start(ctx, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		waitStatus(t, e, r.ID(), store.Suspended)
		if err := word.Send(ctx, e, r.ID(), "a"); err != nil {
			t.Fatal(err)
		}
		for time.Since(start) < 1300*time.Millisecond {
			if info, err := r.Info(ctx); err != nil || info.Status.Terminal() {
				t.Fatal(info, err)
			}
			time.Sleep(time.Millisecond) // of the bubble
		}
		if err := word.Send(ctx, e, r.ID(), "b"); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Wait(ctx); err != nil || got != "ab" {
			t.Fatalf("got %q, %v", got, err)
		}
	})
}

// TestEvictionAgainstWakeUp sends while a run is on its way out of memory: many
// runs, each evicted at every suspension, each woken at once.
func TestEvictionAgainstWakeUp(t *testing.T) {
	t.Parallel()
	const rounds, runs = 20, 20
	w := stet.Define("echo", func(ctx stet.Context, _ int) (int, error) {
		sum := 0
		for range rounds {
			v, err := counter.Receive(ctx)
			if err != nil {
				return 0, err
			}
			sum += v
		}
		return sum, nil
	})
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			open := s.open(t)
			outside := client(t, open(), w)
			for _, parked := range []int{stet.None, 20_000, 60_000} {
				t.Run(fmt.Sprintf("parked %d", parked), func(t *testing.T) {
					ctx := testContext(t)
					e := serve(t, stet.Config{Store: open(), Workflows: []stet.Definition{w}, MaxParkedBytes: parked,
						Poll: time.Minute})
					var wg sync.WaitGroup
					for range runs {
						wg.Go(func() {
							r, err := w.Start(ctx, e, 0)
							if err != nil {
								t.Error(err)
								return
							}
							for i := range rounds {
								sender := e
								if i%3 == 0 {
									sender = outside
								}
								if err := counter.Send(ctx, sender, r.ID(), i); err != nil {
									t.Error(err)
								}
							}
							if got, err := r.Wait(ctx); err != nil || got != rounds*(rounds-1)/2 {
								t.Errorf("got %d, %v", got, err)
							}
						})
					}
					wg.Wait()
				})
			}
		})
	}
}

var counter = stet.Message[int]("counter")

// TestPausedOwnerIsFenced freezes an owner beyond its lease. Another takes over; later attempts of the first one are
// refused, and it stands by.
func TestPausedOwnerIsFenced(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			// otherwise a slow machine is an owner that pauses
			synctest.Test(t, func(t *testing.T) { pausedOwnerIsFenced(t, s.open(t)) })
		})
	}
}

func pausedOwnerIsFenced(t *testing.T, open func() store.Store) {
	ctx := testContext(t)
	g := &gated{Store: open()}
	var started atomic.Int32
	entered, release := make(chan struct{}, 2), make(chan struct{})
	w := stet.Define("held", func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "s", func(context.Context) (int, error) {
			n := int(started.Add(1))
			entered <- struct{}{}
			if n == 1 {
				<-release
			}
			return n, nil
		})
	})
	cfg := stet.Config{Store: g, Workflows: []stet.Definition{w}, LeaseTTL: 300 * time.Millisecond,
		Poll: 20 * time.Millisecond, Grace: stet.None}
	first := serve(t, cfg)
	r, err := w.Start(ctx, first, 0)
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	frozen := make(chan struct{})
	g.frozen.Store(&frozen)
	cfg.Store = open()
	second := serve(t, cfg)
	<-entered // the second owner's attempt
	got, err := w.Handle(second, r.ID()).Wait(ctx)
	if err != nil || got != 2 {
		t.Fatalf("got %d, %v; want 2", got, err)
	}
	close(release) // the first body returns, too late
	g.frozen.Store(nil)
	close(frozen)
	for first.Owner() {
		if err := takes(ctx, time.Millisecond); err != nil {
			t.Fatal("the first engine still believes that it is the owner")
		}
	}
	if got, err := r.Wait(ctx); err != nil || got != 2 {
		t.Fatalf("afterwards: got %d, %v; want 2", got, err)
	}
}

// TestStandbyTakesOver stops the owner; the standby goes on at once.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			ctx := testContext(t)
			open := s.open(t)
			cfg := stet.Config{Workflows: []stet.Definition{oneWord}, Poll: 20 * time.Millisecond}
			first := startProcess(t, open(), cfg)
			for !first.Owner() {
				if ctx.Err() != nil {
					t.Fatal("no owner")
				}
			}
			cfg.Store = open()
			standby := serve(t, cfg)
			r, err := oneWord.Start(ctx, standby, 0)
			if err != nil {
				t.Fatal(err)
			}
			waitStatus(t, standby, r.ID(), store.Suspended)
			if standby.Owner() {
				t.Fatal("two owners")
			}
			first.bury(t)
			if err := word.Send(ctx, standby, r.ID(), "x"); err != nil {
				t.Fatal(err)
			}
			if got, err := r.Wait(ctx); err != nil || got != "x" {
				t.Fatalf("got %q, %v", got, err)
			}
		})
	}
}

func TestExclusiveRefusesSecondEngine(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			ctx := testContext(t)
			open := s.open(t)
			first := serve(t, stet.Config{Store: open(), Workflows: []stet.Definition{oneWord}, Node: "first"})
			for !first.Owner() {
				if ctx.Err() != nil {
					t.Fatal("no owner")
				}
			}
			second, err := stet.New(t.Context(), stet.Config{Store: open(), Exclusive: true})
			if err != nil {
				t.Fatal(err)
			}
			err = second.Run(ctx)
			if err == nil || ctx.Err() != nil {
				t.Fatal("a second exclusive engine runs")
			}
			t.Log(err)
		})
	}
}

// TestAdoptedBeforeParked lets a send claim a run after its suspension is durable and before the engine gets the
// verdict: the run is parked once, and evicted in time.
func TestAdoptedBeforeParked(t *testing.T) {
	t.Parallel()
	const rounds = 50
	w := stet.Define("adopted", func(ctx stet.Context, _ int) (int, error) {
		for range rounds {
			if _, err := counter.Receive(ctx); err != nil {
				return 0, err
			}
		}
		return rounds, nil
	})
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			ctx := testContext(t)
			g := &gated{Store: s.open(t)()}
			g.afterCommit = func(b *store.Batch) {
				if commits(b, store.Suspended) {
					time.Sleep(time.Millisecond) // meanwhile sends gather in the next batch
				}
			}
			e := serve(t, stet.Config{Store: g, Workflows: []stet.Definition{w}, ParkFor: 5 * time.Millisecond,
				MaxParkedBytes: 100_000, Poll: time.Minute})
			var wg sync.WaitGroup
			for range 10 {
				r, err := w.Start(ctx, e, 0)
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					wg.Go(func() {
						for i := range rounds / 2 {
							if err := counter.Send(ctx, e, r.ID(), i); err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				wg.Go(func() {
					if got, err := r.Wait(ctx); err != nil || got != rounds {
						t.Errorf("got %d, %v", got, err)
					}
				})
			}
			wg.Wait()
		})
	}
}
