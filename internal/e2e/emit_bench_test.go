//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stet-run/stet"
)

// BenchmarkEmit compares the processor time of 1,000 items that a body emits in a second, as a
// model's tokens, with that of 1,000 steps, one right behind the other (ratio) and in a second, too
// (paced): what executes a hundred times a second finds nothing in the processor's caches. At most
// 0.1. What the same second takes without items does not count.
func BenchmarkEmit(b *testing.B) {
	const n = 1000
	emits := stet.Define("emits", func(ctx stet.Context, each int) (int, error) {
		return 0, stet.Do(ctx, "ask", func(ctx context.Context) error {
			tick := time.NewTicker(time.Second / 100)
			defer tick.Stop()
			for range 100 {
				for range each {
					if err := emitted.Emit(ctx, "a token or so"); err != nil {
						return err
					}
				}
				<-tick.C
			}
			return nil
		})
	})
	steps := stet.Define("steps", func(ctx stet.Context, _ int) (int, error) {
		for i := range n {
			err := stet.Do(ctx, "step", func(context.Context) error { return nil }, stet.Key(fmt.Sprint(i)))
			if err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	tick := time.NewTicker(time.Second / 100)
	defer tick.Stop()
	paced := stet.Define("paced", func(ctx stet.Context, each int) (int, error) {
		for i := range n {
			err := stet.Do(ctx, "step", func(context.Context) error {
				if i%each == 0 {
					<-tick.C
				}
				return nil
			}, stet.Key(fmt.Sprint(i)))
			if err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	for _, s := range testStores {
		b.Run(s.name, func(b *testing.B) {
			e := serve(b, stet.Config{Store: s.open(b)(), Workflows: []stet.Definition{emits, steps, paced}})
			spend := func(w *stet.Workflow[int, int], input int) time.Duration {
				runtime.GC()
				begun := processorTime(b)
				r, err := w.Start(b.Context(), e, input)
				if err == nil {
					_, err = r.Wait(b.Context())
				}
				if err != nil {
					b.Fatal(err)
				}
				return processorTime(b) - begun
			}
			var emit, step, second time.Duration
			for b.Loop() {
				rest := spend(emits, 0)
				emit += spend(emits, n/100) - rest
				step += spend(steps, 0)
				second += spend(paced, n/100) - rest
			}
			b.ReportMetric(float64(emit.Microseconds())/float64(b.N)/1e3, "emit-cpu-ms")
			b.ReportMetric(float64(step.Microseconds())/float64(b.N)/1e3, "steps-cpu-ms")
			b.ReportMetric(float64(second.Microseconds())/float64(b.N)/1e3, "paced-cpu-ms")
			b.ReportMetric(float64(emit)/float64(step), "ratio")
			b.ReportMetric(float64(emit)/float64(second), "paced-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// processorTime returns how long the process has had a processor.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
