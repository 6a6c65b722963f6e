package e2e_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// served runs an engine in a bubble for as long as fn takes.
func served(t *testing.T, cfg stet.Config, fn func(e *stet.Engine)) {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	cfg.LeaseTTL, cfg.Poll = 24*time.Hour, time.Hour // in years of virtual time
	e, err := stet.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	fn(e)
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// TestRetention: each workflow and status has its own time after the end; an expired run is not found any more, and its
// ID is free.
func TestRetention(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	ends := func(ctx stet.Context, how string) (string, error) {
		if how == "failed" {
			return "", errors.New("failed")
		}
		return stet.Step(ctx, "s", func(context.Context) (string, error) { return how, nil })
	}
	standard := stet.Define("standard", ends)
	forever := stet.Define("for-ever", ends, stet.KeepFor(stet.None))
	brief := stet.Define("brief", ends, stet.Retention{Succeeded: stet.AtOnce, Failed: time.Hour})
	waiting := stet.Define("waiting", func(ctx stet.Context, _ string) (string, error) { return word.Receive(ctx) },
		stet.KeepFor(stet.AtOnce))
	all := []stet.Definition{standard, forever, brief, waiting}
	for _, c := range []struct {
		name   string
		config stet.Retention
		want   map[string]time.Duration // by run; none: for ever
	}{
		{"by default", stet.Retention{}, map[string]time.Duration{
			"standard succeeded": 30 * day, "standard failed": 30 * day, "standard cancelled": 30 * day,
			"brief succeeded": time.Minute, "brief failed": time.Hour, "brief cancelled": 30 * day,
		}},
		{"by the config", stet.Retention{Succeeded: day, Cancelled: stet.None}, map[string]time.Duration{
			"standard succeeded": day, "standard failed": 30 * day,
			"brief succeeded": time.Minute, "brief failed": time.Hour,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, begun := context.Background(), time.Now()
				cfg := stet.Config{Store: memory.New(), Workflows: all, Retention: c.config}
				var runs []string
				served(t, cfg, func(e *stet.Engine) {
					for _, w := range []*stet.Workflow[string, string]{standard, forever, brief} {
						for _, how := range []string{"succeeded", "failed", "cancelled"} {
							id := w.Name() + " " + how
							runs = append(runs, id)
							opts := []stet.StartOption{stet.ID(id)}
							if how == "cancelled" {
								opts = append(opts, stet.StartAfter(day))
							}
							r, err := w.Start(ctx, e, how, opts...)
							if err != nil {
								t.Fatal(err)
							}
							if how == "cancelled" {
								if ok, err := r.Cancel(ctx, stet.Act{}); err != nil || !ok {
									t.Fatal(ok, err)
								}
							}
							if _, err := r.Wait(ctx); (err != nil) != (how != "succeeded") {
								t.Fatalf("%s: %v", id, err)
							}
						}
					}
					if _, err := waiting.Start(ctx, e, "", stet.ID("waiting")); err != nil {
						t.Fatal(err)
					}
				})
				for _, at := range []time.Duration{50 * time.Second, 3 * time.Minute, 59 * time.Minute, 63 * time.Minute,
					day - time.Minute,
					day + 3*time.Minute, 30*day - time.Minute, 30*day + 3*time.Minute, 400 * day} {
					// A process sweeps each minute: it runs for some passes before each look, not for 400 days.
					time.Sleep(time.Until(begun.Add(at - 10*time.Minute)))
					served(t, cfg, func(e *stet.Engine) {
						time.Sleep(time.Until(begun.Add(at)))
						for _, id := range runs {
							keep, ends := c.want[id]
							_, err := e.Runs().Info(ctx, id)
							if gone := ends && keep < at; gone != errors.Is(err, stet.ErrNotFound) || !gone && err != nil {
								t.Errorf("%s after %s: %v", id, at, err)
							}
						}
					})
				}
				served(t, cfg, func(e *stet.Engine) {
					if again, err := standard.Start(ctx, e, "other input", stet.ID("standard succeeded")); err != nil {
						t.Errorf("a start with the ID of a run that is gone: %v", err)
					} else if got, err := again.Wait(ctx); err != nil || got != "other input" {
						t.Errorf("it gives %q, %v", got, err)
					}
					if err := word.Send(ctx, e, "waiting", "end"); err != nil {
						t.Errorf("the live run: %v", err)
					}
					if got, err := waiting.Handle(e, "waiting").Wait(ctx); err != nil || got != "end" {
						t.Errorf("the live run: %q, %v", got, err)
					}
				})
			})
		})
	}
}

// TestRetentionChanges count for runs that have ended before; what a process does
// not know it leaves alone.
func TestRetentionChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		quick := func(ctx stet.Context, _ int) (int, error) { return 1, nil }
		ctx := context.Background()
		first := stet.Define("first", quick, stet.KeepFor(stet.None))
		second := stet.Define("second", quick, stet.KeepFor(stet.None))
		served(t, stet.Config{Store: s, Workflows: []stet.Definition{first, second}}, func(e *stet.Engine) {
			for _, w := range []*stet.Workflow[int, int]{first, second} {
				r, err := w.Start(ctx, e, 0, stet.ID(w.Name()))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.Wait(ctx); err != nil {
					t.Fatal(err)
				}
			}
		})
		time.Sleep(100 * 24 * time.Hour)
		served(t, stet.Config{Store: s, Workflows: []stet.Definition{first, second}}, func(*stet.Engine) {
			time.Sleep(time.Hour)
		})
		// without any code, as the command line
		served(t, stet.Config{Store: s}, func(e *stet.Engine) { time.Sleep(time.Hour) })
		served(t, stet.Config{Store: s, Workflows: []stet.Definition{stet.Define("first", quick)}}, func(e *stet.Engine) {
			if _, err := e.Runs().Info(ctx, "first"); err != nil {
				t.Errorf("before the first pass: %v", err)
			}
			time.Sleep(2 * time.Minute)
			if _, err := e.Runs().Info(ctx, "first"); !errors.Is(err, stet.ErrNotFound) {
				t.Errorf("a run that is kept no more: %v", err)
			}
			if _, err := e.Runs().Info(ctx, "second"); err != nil {
				t.Errorf("a run of a workflow without code here: %v", err)
			}
		})
	})
}

// TestSweepingDoesNotBlockRuns: while thousands of entries are deleted, runs go on.
func TestSweepingDoesNotBlockRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sweeping{Store: memory.New()}
		many := stet.Define("many", func(ctx stet.Context, n int) (int, error) {
			items := make([]int, n)
			got, err := stet.Map(ctx, "m", items, func(ctx stet.Context, _ int) (int, error) {
				return stet.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
			})
			return len(got), err
		}, stet.KeepFor(stet.AtOnce))
		one := stet.Define("one", func(ctx stet.Context, _ int) (int, error) {
			return stet.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
		})
		served(t, stet.Config{Store: s, Workflows: []stet.Definition{many, one}}, func(e *stet.Engine) {
			ctx := context.Background()
			r, err := many.Start(ctx, e, 5000, stet.ID("many"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			s.call(func() { // a run from start to end between two parts of the pass
				r, err := one.Start(ctx, e, 0)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := r.Wait(ctx); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(3 * time.Minute)
			if _, err := e.Runs().Info(ctx, "many"); !errors.Is(err, stet.ErrNotFound) {
				t.Errorf("the large run: %v", err)
			}
			if parts := s.call(nil); parts < 10 {
				t.Errorf("it was deleted in %d parts; want 10 or more", parts)
			}
		})
	})
}

// sweeping calls a function after each part that has deleted something.
type sweeping struct {
	store.Store

	mu      sync.Mutex
	between func()
	parts   int
}

// call sets the function. It returns how many parts there have been.
func (s *sweeping) call(between func()) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.between = between
	return s.parts
}

func (s *sweeping) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	swept, err := s.Store.Sweep(ctx, req)
	if swept.Rows > 0 {
		s.mu.Lock()
		s.parts++
		between := s.between
		s.mu.Unlock()
		between()
	}
	return swept, err
}

func TestBadRetention(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(stet.Context, int) (int, error) { return 0, nil }, stet.Retention{Failed: -5})
	_, err := stet.New(t.Context(), stet.Config{Store: memory.New(), Workflows: []stet.Definition{w},
		Retention: stet.KeepFor(-time.Hour)})
	if !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
