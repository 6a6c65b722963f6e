package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// TestDeadlinesWhereMemoryIsFull: a deadline wins over an inbox that was read completely. It
// must not wait until a claim has found no more runs, which does not happen while there are
// more of them than memory takes.
func TestDeadlinesWhereMemoryIsFull(t *testing.T) {
	t.Parallel()
	t.Run("loaded", func(t *testing.T) { testDeadlinesWhereMemoryIsFull(t, stet.None) })
	t.Run("parked", func(t *testing.T) { testDeadlinesWhereMemoryIsFull(t, 60_000) })
}

func testDeadlinesWhereMemoryIsFull(t *testing.T, parked int) {
	synctest.Test(t, func(t *testing.T) {
		w := stet.Define("patient", func(ctx stet.Context, _ int) (bool, error) {
			_, err := word.Receive(ctx, stet.Within(time.Second))
			return errors.Is(err, stet.ErrTimeout), nil
		})
		p := startProcess(t, memory.New(), stet.Config{
			Workflows: []stet.Definition{w}, MaxRuns: 1, MaxParkedBytes: parked,
		})
		var runs []*stet.Run[bool]
		for i := range 5 {
			r, err := w.Start(t.Context(), p.Engine, i, stet.ID(fmt.Sprint("r", i)))
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, r)
		}
		begun := time.Now()
		for _, r := range runs {
			if timedOut, err := r.Wait(t.Context()); !timedOut || err != nil {
				t.Errorf("%s ends with %t, %v", r.ID(), timedOut, err)
			}
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// TestADeadlineOfABusyRunWhereMemoryIsFull: a run that is in memory for the sake of a step gets
// its deadline in time while others wait for room, and nothing spins until then.
func TestADeadlineOfABusyRunWhereMemoryIsFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := stet.Define("busy", func(ctx stet.Context, _ int) (took time.Duration, err error) {
			begun := stet.Now(ctx)
			_, err = stet.All(ctx,
				stet.Go(ctx, "work", func(ctx stet.Context) (bool, error) {
					return stet.Step(ctx, "long", func(ctx context.Context) (bool, error) {
						time.Sleep(time.Hour)
						return true, nil
					})
				}),
				stet.Go(ctx, "wait", func(ctx stet.Context) (bool, error) {
					_, err := word.Receive(ctx, stet.Within(time.Second))
					took = stet.Now(ctx).Sub(begun)
					if errors.Is(err, stet.ErrTimeout) {
						err = nil
					}
					return true, err
				}))
			return took, err
		})
		p := startProcess(t, memory.New(), stet.Config{Workflows: []stet.Definition{w}, MaxRuns: 1})
		var runs []*stet.Run[time.Duration]
		for i := range 2 {
			r, err := w.Start(t.Context(), p.Engine, i, stet.ID(fmt.Sprint("r", i)))
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, r)
		}
		for _, r := range runs {
			if took, err := r.Wait(t.Context()); took < time.Second || took > 2*time.Second || err != nil {
				t.Errorf("%s waits for %s, %v", r.ID(), took, err)
			}
		}
	})
}
