package e2e_test

import (
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stet-run/stet"
)

// TestGarbageOfAStep: the collector costs a busy process more than its store does, so what a step allocates has a
// budget. Starts, waits and ends of runs of ten steps are counted in.
func TestGarbageOfAStep(t *testing.T) {
	const (
		runs, atOnce, length  = 500, 50, 10
		mostBytes, mostPieces = 5600, 32
	)
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			w := steps(length)
			e := serve(t, stet.Config{Store: s.open(t)(), Workflows: []stet.Definition{w},
				Logger: slog.New(slog.DiscardHandler)})
			execute := func(n int) {
				var wg sync.WaitGroup
				todo := make(chan int)
				for range atOnce {
					wg.Go(func() {
						for i := range todo {
							r, err := w.Start(t.Context(), e, payload{i, strings.Repeat("x", 80)})
							if err == nil {
								_, err = r.Wait(t.Context())
							}
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
				for i := range n {
					todo <- i
				}
				close(todo)
				wg.Wait()
			}
			execute(atOnce) // pools and statements
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			execute(runs)
			runtime.ReadMemStats(&after)
			bytes := (after.TotalAlloc - before.TotalAlloc) / (runs * length)
			pieces := (after.Mallocs - before.Mallocs) / (runs * length)
			t.Logf("a step allocates %d bytes in %d pieces", bytes, pieces)
			if bytes > mostBytes || pieces > mostPieces {
				t.Errorf("a step allocates %d bytes in %d pieces, expected at most %d in %d", bytes, pieces,
					mostBytes, mostPieces)
			}
		})
	}
}
