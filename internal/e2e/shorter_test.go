package e2e_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestNoWaitIsShortened: a wait of a time that no store can keep, of nanoseconds, is not over before
// it. Seed 425 of the simulation has shown it.
func TestNoWaitIsShortened(t *testing.T) {
	t.Parallel()
	type waited struct{ Sleep, Until, Select, At time.Duration } // after each: how long it was too short
	w := stet.Define("shorter", func(ctx stet.Context, d time.Duration) (out waited, err error) {
		short := func(name string, wait func(due time.Time) error) (by time.Duration) {
			due := stet.Now(ctx).Add(d)
			if e := wait(due); e != nil && err == nil {
				err = e
			}
			return max(due.Sub(stet.Now(ctx)), 0)
		}
		out.Sleep = short("sleep", func(time.Time) error { return stet.Sleep(ctx, "sleep", d) })
		out.Until = short("until", func(due time.Time) error { return stet.SleepUntil(ctx, "until", due) })
		out.Select = short("select", func(time.Time) error {
			_, err := stet.Select(ctx, stet.AfterDelay("select", d))
			return err
		})
		out.At = short("at", func(due time.Time) error {
			_, err := stet.Select(ctx, stet.AtTime("at", due))
			return err
		})
		return out, err
	})
	begun := stet.Define("begun", func(ctx stet.Context, _ int) (time.Time, error) { return stet.Now(ctx), nil })
	forEachStoreInABubble(t, func(t *testing.T, cfg stet.Config, _ *gated, client store.Store) {
		cfg.Workflows = []stet.Definition{w, begun}
		e := serve(t, cfg)
		synctest.Wait()
		for _, d := range []time.Duration{1, 999, 1500, 2001, 5_000_001, time.Millisecond} {
			if got, err := run(t, e, w, d); got != (waited{}) || err != nil {
				t.Errorf("waits of %s were too short by %+v, %v", d, got, err)
			}
			for _, opt := range []func(due time.Time) stet.StartOption{
				func(due time.Time) stet.StartOption { return stet.StartAt(due) },
				func(time.Time) stet.StartOption { return stet.StartAfter(d) },
			} {
				// The store's clock has no nanoseconds.
				due := time.Now().Truncate(time.Microsecond).Add(d)
				r, err := begun.Start(t.Context(), e, 0, opt(due))
				if err != nil {
					t.Fatal(err)
				}
				if at, err := r.Wait(t.Context()); at.Before(due) || err != nil {
					t.Errorf("%T of %s: a run that is due at %s has begun at %s, %v", opt(due), d, due, at, err)
				}
			}
		}
	})
}
