package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

// TestRetryIfIsAskedAboutTimeoutsAndPanics: it knows them, and may make them final. What
// the body returns after its time counts only if it is marked.
func TestRetryIfIsAskedAboutTimeoutsAndPanics(t *testing.T) {
	t.Parallel()
	timedOut := func(c context.Context) error { <-c.Done(); return c.Err() }
	hangs := func(c context.Context) error { <-c.Done(); time.Sleep(time.Hour); return nil }
	for name, c := range map[string]struct {
		body     func(context.Context) error
		final    error // what If makes final; nil: there is no If
		attempts int
		is       error
	}{
		"a timeout, without If":   {timedOut, nil, 3, stet.ErrTimeout},
		"a timeout":               {timedOut, stet.ErrStepTimeout, 1, stet.ErrTimeout},
		"a timeout as a wait's":   {timedOut, stet.ErrTimeout, 1, stet.ErrTimeout},
		"of a body that hangs":    {hangs, stet.ErrStepTimeout, 1, stet.ErrTimeout},
		"a timeout, panics final": {timedOut, stet.ErrPanic, 3, stet.ErrTimeout},
		"what came too late":      {timedOut, context.Canceled, 3, stet.ErrTimeout},
		"a panic":                 {func(context.Context) error { panic("no") }, stet.ErrPanic, 1, stet.ErrPanic},
		"a panic, without If":     {func(context.Context) error { panic("no") }, nil, 3, stet.ErrPanic},
		"a panic, timeouts final": {func(context.Context) error { panic("no") }, stet.ErrTimeout, 3, stet.ErrPanic},
		"the end of the goroutine": {func(context.Context) error {
			runtime.Goexit()
			return nil
		}, stet.ErrPanic, 1, stet.ErrPanic},
		"Permanent after its time": {func(c context.Context) error {
			<-c.Done()
			return stet.Permanent(errSoldOut)
		}, nil, 1, nil},
		"Permanent joined with another": {func(context.Context) error {
			return fmt.Errorf("charge: %w", errors.Join(errors.New("close"), stet.Permanent(errSoldOut)))
		}, nil, 1, nil},
		"Permanent joined with nothing": {func(context.Context) error {
			return errors.Join(stet.Permanent(errSoldOut), nil)
		}, nil, 1, nil},
		"Rollback after its time": {func(c context.Context) error {
			<-c.Done()
			return stet.Rollback(errSoldOut)
		}, nil, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				retry := stet.Retry{Attempts: 3, First: time.Millisecond, Timeout: time.Second}
				if c.final != nil {
					retry.If = func(err error) bool { return !errors.Is(err, c.final) }
				}
				w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
					err := stet.Do(ctx, "s", c.body, retry)
					var step *stet.StepError
					if !errors.As(err, &step) {
						return "", fmt.Errorf("no error of a step: %w", err)
					}
					return fmt.Sprintf("%d %v", step.Attempts, c.is == nil || errors.Is(err, c.is)), nil
				})
				e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
				want := fmt.Sprintf("%d true", c.attempts)
				if got, err := run(t, e, w, 0); err != nil || got != want {
					t.Errorf("expected %s, found %s, %v", want, got, err)
				}
				time.Sleep(4 * time.Hour) // the bodies that hang end
			})
		})
	}
}

// TestRetryIfThatPanics: the attempt's own failure stays the cause, and is retried.
func TestRetryIfThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
			return 0, stet.Do(ctx, "s", func(c context.Context) error { <-c.Done(); return nil },
				stet.Retry{Attempts: 2, Timeout: time.Second, If: func(error) bool { panic("If") }})
		})
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
		_, err := run(t, e, w, 0)
		var step *stet.StepError
		if !errors.As(err, &step) || step.Attempts != 2 || !errors.Is(err, stet.ErrTimeout) {
			t.Errorf("it gave %v", err)
		}
	})
}

// TestRetryAfterBoundsTheDelayFromBelow: over Retry.Max, not under the usual delay, within
// Overall.
func TestRetryAfterBoundsTheDelayFromBelow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asked    time.Duration
		retry    stet.Retry
		attempts int
		took     time.Duration
	}{
		"over the longest delay": {time.Hour, stet.Retry{First: time.Second, Max: time.Second}, 2, time.Hour},
		"under the usual one":    {time.Second, stet.Retry{First: 20 * time.Second}, 2, 20 * time.Second},
		"negative":               {-time.Hour, stet.Retry{First: 20 * time.Second}, 2, 20 * time.Second},
		"over the time of all":   {time.Hour, stet.Retry{First: time.Second, Overall: time.Minute}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.retry.Jitter = stet.None
			w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
				from := stet.Now(ctx)
				attempts, err := stet.Step(ctx, "s", func(c2 context.Context) (int, error) {
					if stet.Attempt(c2) == 1 {
						return 0, fmt.Errorf("busy: %w", stet.RetryAfter(errSoldOut, c.asked))
					}
					return stet.Attempt(c2), nil
				}, c.retry)
				var step *stet.StepError
				if errors.As(err, &step) {
					attempts = step.Attempts
				}
				return fmt.Sprint(attempts, stet.Now(ctx).Sub(from).Round(time.Second)), nil
			})
			want := fmt.Sprint(c.attempts, c.took)
			stettest.Run(t, stet.Config{Workflows: []stet.Definition{w}}, func(t *testing.T, env *stettest.Env) {
				r, err := w.Start(t.Context(), env.Engine, 0)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := r.Wait(t.Context()); err != nil || got != want {
					t.Errorf("expected %s, found %s, %v", want, got, err)
				}
			})
		})
	}
}

// TestRetryAfterCrashesEverywhere: whatever commit the process dies at, no attempt begins before the
// error of the former one allows it.
func TestRetryAfterCrashesEverywhere(t *testing.T) {
	t.Parallel()
	const asked = time.Minute // longer than a takeover
	w := stet.Define("busy", func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "ask", func(ctx context.Context) (int, error) {
			if n := stet.Attempt(ctx); n < 3 {
				return 0, stet.RetryAfter(errSoldOut, time.Duration(n)*asked)
			}
			return 7, nil
		}, stet.Retry{First: time.Second, Max: time.Second})
	})
	holds := func(ctx context.Context, e *stet.Engine, id string) error {
		entries, err := e.Runs().History(ctx, id, stet.HistoryQuery{Values: true})
		if err != nil {
			return err
		}
		if len(entries) != 1 || len(entries[0].Failures) != 2 {
			return fmt.Errorf("expected a step with two failed attempts, found %+v", entries)
		}
		first, second := entries[0].Failures[0], entries[0].Failures[1]
		if a, b := second.Began.Sub(first.Ended), entries[0].Ended.Sub(second.Ended); a < asked || b < 2*asked {
			return fmt.Errorf("the attempts began after %s and %s; they may after %s and %s", a, b, asked, 2*asked)
		}
		return nil
	}
	got, err := stettest.CrashEverywhere(t, w, 0, stettest.Checking(holds))
	if got != 7 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
}

// TestRollbackOfAStep keeps its mark through the record, a replay, branches and wrapping, and
// does nothing if the function goes another way.
func TestRollbackOfAStep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(ctx stet.Context, err error) error
		undone int32
	}{
		"returned":            {func(_ stet.Context, err error) error { return err }, 1},
		"wrapped":             {func(_ stet.Context, err error) error { return fmt.Errorf("w: %w", err) }, 1},
		"joined":              {func(_ stet.Context, err error) error { return errors.Join(errSoldOut, err) }, 1},
		"another is returned": {func(stet.Context, error) error { return errSoldOut }, 0},
		"after a replay": {func(ctx stet.Context, err error) error {
			return errors.Join(err, stet.Sleep(ctx, "rest", 5*time.Second)) // it leaves memory
		}, 1},
		"of a branch": {func(ctx stet.Context, err error) error {
			f := stet.Go(ctx, "b", func(stet.Context) (int, error) { return 0, err })
			return stet.Join(ctx, f)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var undone, attempts atomic.Int32
				w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
					err := stet.Do(ctx, "reserve", func(context.Context) error { return nil },
						stet.UndoDo(func(context.Context) error { undone.Add(1); return nil }))
					if err != nil {
						return 0, err
					}
					err = stet.Do(ctx, "charge", func(context.Context) error {
						attempts.Add(1)
						return fmt.Errorf("deep: %w", stet.Rollback(errSoldOut))
					})
					return 0, c.end(ctx, err)
				}, stet.UndoOnRollback)
				parent := stet.Define("parent", func(ctx stet.Context, _ int) (int, error) {
					err := stet.Do(ctx, "own", func(context.Context) error { return nil },
						stet.UndoDo(func(context.Context) error { t.Error("the parent is undone"); return nil }))
					if err != nil {
						return 0, err
					}
					return w.Call(ctx, 0)
				}, stet.UndoOnRollback)
				e := serve(t, stet.Config{
					MaxParkedBytes: stet.None, Workflows: []stet.Definition{w, parent},
					Errors: []stet.ErrorCode{stet.Sentinel("sold_out", errSoldOut)},
				})
				if _, err := run(t, e, parent, 0); !errors.Is(err, errSoldOut) || attempts.Load() != 1 ||
					undone.Load() != c.undone {
					t.Errorf("after %d attempts %d steps are undone, with %v", attempts.Load(), undone.Load(), err)
				}
			})
		})
	}
}
