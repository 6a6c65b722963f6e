package e2e_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

// BenchmarkForeignSend sends from another handle on the file, as another process
// would, while the owner is saturated with runs of ten steps. It reports how long
// a send takes to be durable, how long it then takes until the run goes on, and
// how large the WAL became. One operation is one send.
func BenchmarkForeignSend(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.db")
	open := func() store.Store {
		s, err := sqlite.Open(context.Background(), path)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		return s
	}
	arrived := make(chan time.Time, 1)
	waiting := stet.Define("waiting", func(ctx stet.Context, _ int) (int, error) {
		for {
			if _, err := counter.Receive(ctx); err != nil {
				return 0, err
			}
			//stetvet:ignore clock the time of the process is what is measured
			//stetvet:ignore channel the code holds the run where the test wants it
			arrived <- time.Now()
		}
	})
	load := steps(10)
	owner := serve(b, stet.Config{Store: open(), Workflows: []stet.Definition{waiting, load},
		Logger: slog.New(slog.DiscardHandler)})
	outside, err := stet.New(b.Context(), stet.Config{Store: open(), Workflows: []stet.Definition{waiting},
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := waiting.Start(b.Context(), owner, 0, stet.ID("waiting")); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			for ctx.Err() == nil {
				r, err := load.Start(ctx, owner, payload{})
				if err == nil {
					_, err = r.Wait(ctx)
				}
				if err != nil && ctx.Err() == nil {
					b.Error(err)
				}
			}
		})
	}
	time.Sleep(200 * time.Millisecond) // until the load is there
	var durable, reached []time.Duration
	var wal int64
	b.ResetTimer()
	for i := range b.N {
		begun := time.Now()
		if err := counter.Send(b.Context(), outside, "waiting", i); err != nil {
			b.Fatal(err)
		}
		sent := time.Now()
		durable = append(durable, sent.Sub(begun))
		reached = append(reached, max((<-arrived).Sub(sent), 0))
		if info, err := os.Stat(path + "-wal"); err == nil {
			wal = max(wal, info.Size())
		}
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	stop()
	wg.Wait()
	report := func(name string, took []time.Duration) {
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, name+"-p99-ms")
	}
	report("durable", durable)
	report("reached", reached)
	b.ReportMetric(float64(wal)/(1<<20), "WAL-MiB")
}
