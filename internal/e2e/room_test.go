package e2e_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// TestDeadlinesWhereMemoryIsFull: a deadline wins over an inbox that was read when the run was
// loaded. It must not wait until a claim has found nothing more, which does not happen while
// there are more runs than memory takes.
func TestDeadlinesWhereMemoryIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := stet.Define("patient", func(ctx stet.Context, _ int) (bool, error) {
			_, err := word.Receive(ctx, stet.Within(time.Second))
			return errors.Is(err, stet.ErrTimeout), nil
		})
		p := startProcess(t, memory.New(), stet.Config{
			Workflows: []stet.Definition{w}, MaxRuns: 1, MaxParked: stet.None,
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
