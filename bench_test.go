package stet_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stet-run/stet"
)

type payload struct {
	ID   int    `json:"id"`
	Text string `json:"text"`
}

func steps(n int) *stet.Workflow[payload, payload] {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("step-%d", i)
	}
	return stet.Define("steps", func(ctx stet.Context, p payload) (payload, error) {
		for _, name := range names {
			var err error
			in := p
			if p, err = stet.Step(ctx, name, func(context.Context) (payload, error) { return in, nil }); err != nil {
				return p, err
			}
		}
		return p, nil
	})
}

// BenchmarkThroughput executes runs of ten steps, 100 at a time; one operation
// is one run.
func BenchmarkThroughput(b *testing.B) {
	for _, s := range testStores {
		b.Run(s.name, func(b *testing.B) {
			w := steps(10)
			e := serve(b, stet.Config{Store: s.open(b)(), Workflows: []stet.Definition{w}, Logger: slog.New(slog.DiscardHandler)})
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			todo := make(chan int)
			for range 100 {
				wg.Go(func() {
					for i := range todo {
						r, err := w.Start(b.Context(), e, payload{i, strings.Repeat("x", 80)})
						if err != nil {
							b.Error(err)
							return
						}
						if _, err := r.Wait(b.Context()); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for i := range b.N {
				todo <- i
			}
			close(todo)
			wg.Wait()
			b.ReportMetric(float64(b.N)*12/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
