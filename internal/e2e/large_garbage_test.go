package e2e_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/stet-run/stet"
)

// TestCopiesOfALargeValue: a large value that a step returns is copied few times on its way from the body to the store.
// Each copy is garbage, and large garbage makes the collector work at once.
func TestCopiesOfALargeValue(t *testing.T) {
	const (
		size, length = 1 << 20, 40
		most         = 2.5
	)
	w := stet.Define("large", func(ctx stet.Context, n int) (int, error) {
		text := strings.Repeat("x", size)
		for range n {
			if _, err := stet.Step(ctx, "s", func(_ context.Context) (payload, error) {
				return payload{1, text}, nil
			}); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			e := serve(t, stet.Config{Store: s.open(t)(), Workflows: []stet.Definition{w},
				Logger: slog.New(slog.DiscardHandler)})
			execute := func(n int) {
				r, err := w.Start(t.Context(), e, n)
				if err == nil {
					_, err = r.Wait(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			execute(2)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			execute(length)
			runtime.ReadMemStats(&after)
			copies := float64(after.TotalAlloc-before.TotalAlloc) / (size * length)
			t.Logf("%.2f bytes are allocated for each of a value", copies)
			if copies > most {
				t.Errorf("%.2f bytes are allocated for each of a value, expected at most %.2f", copies, most)
			}
		})
	}
}
