package e2e_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestARunOutlastsAnOutage: with the default policy a step whose service is away for hours is tried until it is
// back. Nothing is undone, and the run says how often the step has failed, since when, and when it is tried again.
func TestARunOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{2 * time.Second, 10 * time.Minute, 30 * time.Hour} {
		t.Run(away.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun, refunds, attempts := time.Now(), 0, 0
				w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
					if err := stet.Do(ctx, "charge", func(context.Context) error { return nil },
						stet.UndoDo(func(context.Context) error { refunds++; return nil })); err != nil {
						return "", err
					}
					return stet.Step(ctx, "book", func(context.Context) (string, error) {
						if attempts++; time.Since(begun) < away {
							return "", errors.New("no answer")
						}
						return "booked", nil
					})
				})
				ctx := t.Context()
				e := serve(t, stet.Config{Workflows: []stet.Definition{w}, LeaseTTL: 24 * time.Hour, Poll: time.Hour})
				run, err := w.Start(ctx, e, 0, stet.ID("r"))
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(away * 9 / 10)
				synctest.Wait()
				info, err := e.Runs().Info(ctx, "r")
				if err != nil {
					t.Fatal(err)
				}
				if away > time.Minute {
					if info.Status != store.Suspended || len(info.WaitsFor) != 1 {
						t.Fatalf("the run is %s, and waits for %+v", info.Status, info.WaitsFor)
					}
					got := info.WaitsFor[0]
					if got.Failed != attempts || got.Error != "no answer" || got.Since.Sub(begun).Abs() > time.Second ||
						!got.Until.After(time.Now()) || got.Until.After(time.Now().Add(6*time.Minute)) {
						t.Errorf("after %d attempts, begun at %s, now %s, it waits for %+v", attempts, begun, time.Now(), got)
					}
				}
				if got, err := run.Wait(ctx); err != nil || got != "booked" || refunds != 0 {
					t.Errorf("got %q, %v, with %d refunds", got, err, refunds)
				}
				if late := time.Since(begun) - away; late > 6*time.Minute {
					t.Errorf("it has gone on %s after the service was back", late)
				}
			})
		})
	}
}
