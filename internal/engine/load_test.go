package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// Large runs that are due at the same time come in several answers, each once.
func TestLargeRunsAreLoadedInSeveralAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs, steps = 40, 100 // 400 kB each
		base := memory.New()
		s := &gated{Store: base}
		var mu sync.Mutex
		loaded, answers := map[store.RunNo]int{}, 0
		s.load = func(ctx context.Context, nos []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
			snapshots, left, err := base.Load(ctx, nos)
			mu.Lock()
			defer mu.Unlock()
			answers++
			for i := range snapshots {
				loaded[snapshots[i].Run.No]++
			}
			return snapshots, left, err
		}
		large := with("w", func(b *runner.Branch) ([]byte, error) {
			for i := range steps {
				if _, err := do(b, fmt.Sprint(i), func(context.Context) string { return strings.Repeat("x", 4000) }); err != nil {
					return nil, err
				}
			}
			return hears(1)(b)
		})
		room := func(cfg *engine.Config) { cfg.MaxRuns, cfg.MaxParkedBytes, cfg.ParkFor = 2*runs, 1<<30, time.Hour }
		first := newEngine(t, base, "first", large, room)
		end := begin(t, first)
		synctest.Wait()
		var ids []string
		for i := range runs {
			ids = append(ids, fmt.Sprint("run-", i))
		}
		start(t, first, "w", ids...)
		synctest.Wait()
		for _, id := range ids {
			expectStatus(t, first, id, store.Suspended)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		second := newEngine(t, s, "second", large, room)
		for _, id := range ids {
			send(t, second, id, "now")
		}
		defer serve(t, second)()
		for _, id := range ids {
			expectEnd(t, second, id, store.Succeeded, "now")
		}
		mu.Lock()
		defer mu.Unlock()
		if answers < 2 || answers > 4 {
			t.Errorf("about %d bytes came in %d answers", runs*steps*4000, answers)
		}
		for no, n := range loaded {
			if n != 1 {
				t.Errorf("run %d was loaded %d times", no, n)
			}
		}
	})
}
