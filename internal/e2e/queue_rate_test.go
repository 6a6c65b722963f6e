package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// stopwatch notes when bodies begin.
type stopwatch struct {
	mu    sync.Mutex
	start time.Time
	at    map[string][]time.Duration // by key, to the second
}

func newStopwatch() *stopwatch {
	return &stopwatch{start: time.Now(), at: map[string][]time.Duration{}}
}

func (w *stopwatch) note(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at[key] = append(w.at[key], time.Since(w.start).Round(10*time.Second))
}

func (w *stopwatch) expect(t *testing.T, key string, want ...time.Duration) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.at[key])
	if !slices.Equal(w.at[key], want) {
		t.Errorf("the bodies of %s began at %v; want %v", key, w.at[key], want)
	}
}

// TestRatePerKey: each key has the rate for itself, for steps and for runs, on one queue.
func TestRatePerKey(t *testing.T) {
	t.Parallel()
	forEachStoreInABubble(t, func(t *testing.T, cfg stet.Config, _ *gated, _ store.Store) {
		w := newStopwatch()
		step := stet.Define("step", func(ctx stet.Context, tenant string) (string, error) {
			return "", stet.Do(ctx, "call", func(context.Context) error { w.note(tenant); return nil },
				stet.Permit{Queue: "calls", Key: tenant})
		})
		whole := stet.Define("whole", func(ctx stet.Context, tenant string) (string, error) {
			return "", stet.Do(ctx, "call", func(context.Context) error { w.note("run of " + tenant); return nil })
		})
		cfg.Workflows, cfg.LeaseTTL = []stet.Definition{step, whole}, 24*time.Hour
		e := serve(t, cfg)
		createQueue(t, e, "calls", stet.QueueSettings{RatePerKey: 2, Per: time.Minute})
		createQueue(t, e, "runs", stet.QueueSettings{RatePerKey: 1, Per: time.Minute})
		var runs []*stet.Run[string]
		for range 5 {
			runs = append(runs, startOn(t, e, step, "large"))
		}
		for range 3 {
			runs = append(runs, startOn(t, e, whole, "large", stet.OnQueue{Name: "runs", Key: "large"}))
		}
		runs = append(runs, startOn(t, e, step, "small"), startOn(t, e, whole, "small",
			stet.OnQueue{Name: "runs", Key: "small"}))
		for _, r := range runs {
			if _, err := r.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		const m = time.Minute
		w.expect(t, "large", 0, 0, m, m, 2*m)
		w.expect(t, "small", 0)
		w.expect(t, "run of large", 0, m, 2*m)
		w.expect(t, "run of small", 0)
	})
}

// TestSpentCorrectsTheCost: what an attempt has really taken counts, also of one that fails.
func TestSpentCorrectsTheCost(t *testing.T) {
	t.Parallel()
	forEachStoreInABubble(t, func(t *testing.T, cfg stet.Config, _ *gated, _ store.Store) {
		w := newStopwatch()
		ask := stet.Define("ask", func(ctx stet.Context, _ string) (string, error) {
			for _, c := range []struct{ cost, spent int }{{80, 10}, {80, 95}, {80, -1}, {500, 0}, {100, -1}} {
				err := stet.Do(ctx, "ask", func(ctx context.Context) error {
					w.note("ask")
					if c.spent < 0 {
						return nil
					}
					if err := stet.Spent(ctx, 7); err != nil { // of several the last one counts
						return err
					}
					err := stet.Spent(ctx, c.spent)
					if c.cost == 80 && c.spent == 10 && stet.Attempt(ctx) == 1 {
						err = errors.New("once more")
					}
					return err
				}, stet.Permit{Queue: "tokens", Cost: c.cost}, stet.Retry{First: stet.None})
				if err != nil {
					return "", err
				}
			}
			return "", nil
		})
		cfg.Workflows, cfg.LeaseTTL = []stet.Definition{ask}, 24*time.Hour
		e := serve(t, cfg)
		createQueue(t, e, "tokens", stet.QueueSettings{Rate: 100, Per: time.Minute})
		if _, err := startOn(t, e, ask, "").Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Twice 10, then 95: 115 count, and the next ones wait until they do not. What costs more
		// than the rate is alone.
		w.expect(t, "ask", 0, 0, 0, time.Minute, 2*time.Minute, 2*time.Minute)
	})
}

// TestAttemptThatWasLostCountsAsItsCost: its process ends between the grant and Spent. It is
// executed again with the same permit, and then what it has spent counts.
func TestAttemptThatWasLostCountsAsItsCost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := memory.New()
		begun, hangs := make(chan int, 4), make(chan struct{})
		defer close(hangs)
		ask := stet.Define("ask", func(ctx stet.Context, who string) (string, error) {
			return "", stet.Do(ctx, "ask", func(c context.Context) error {
				begun <- 1
				if who == "lost" && len(begun) == 1 {
					<-hangs // its process ends first
					return nil
				}
				return stet.Spent(c, 10)
			}, stet.Permit{Queue: "tokens", Cost: 80})
		})
		ctx, kill := context.WithCancel(t.Context())
		cfg := stet.Config{Store: first, Workflows: []stet.Definition{ask}, Grace: time.Millisecond}
		e, err := stet.New(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		createQueue(t, e, "tokens", stet.QueueSettings{Rate: 100, Per: time.Hour})
		lost := startOn(t, e, ask, "lost", stet.ID("lost"))
		for len(begun) == 0 {
			synctest.Wait()
		}
		other := startOn(t, e, ask, "other", stet.ID("other"))
		untilQueue(t, e, "tokens", stands(1, 1))
		kill()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "1 have not returned") {
			t.Errorf("the first one has stopped with %v", err)
		}
		cfg.Store = first.Join()
		second := serve(t, cfg)
		started := time.Now()
		for _, id := range []string{lost.ID(), other.ID()} {
			if info, err := second.Runs().Wait(t.Context(), id); err != nil || info.Status != store.Succeeded {
				t.Errorf("%s is %+v, %v", id, info, err)
			}
		}
		if took := time.Since(started); took > time.Minute {
			t.Errorf("the other one waited for %s", took)
		}
		info, err := second.Queues().Info(t.Context(), "tokens")
		if err != nil || info.Granted != 2 || len(begun) != 3 {
			t.Errorf("%d bodies, and the queue is %+v, %v", len(begun), info, err)
		}
	})
}

// TestInvalidCosts are errors of the step, of Spent, and of Create.
func TestInvalidCosts(t *testing.T) {
	t.Parallel()
	once := stet.Retry{Attempts: 1}
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		bad := stet.Do(ctx, "bad", func(context.Context) error { return nil }, stet.Permit{Queue: "q", Cost: -1})
		none := stet.Do(ctx, "none", func(ctx context.Context) error { return stet.Spent(ctx, 5) })
		less := stet.Do(ctx, "less", func(ctx context.Context) error { return stet.Spent(ctx, -5) }, once)
		return fmt.Sprint(errors.Is(bad, stet.ErrInvalid), none, strings.Contains(less.Error(), "expected 0 to")), nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	if got := outcome(t, startOn(t, e, w, "")); got != "true <nil> true" {
		t.Errorf("it returns %s", got)
	}
	for _, s := range []stet.QueueSettings{
		{RatePerKey: -1}, {RatePerKey: 2_000_000_000}, {RatePerKey: 1, Per: time.Microsecond}, {Rate: 2_000_000_000},
	} {
		if err := e.Queues().Create(t.Context(), "bad", s); !errors.Is(err, stet.ErrInvalid) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
