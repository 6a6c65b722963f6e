package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/sqlite"
)

// BenchmarkTasks compares tasks that do nothing with steps that do nothing and have a permit,
// on SQLite: per operation one run with one of them, of 200 at a time. One worker leases up to
// 100 at a time.
func BenchmarkTasks(b *testing.B) {
	for _, kind := range []string{"step", "task"} {
		b.Run(kind, func(b *testing.B) {
			db, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "stet.db"))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { // behind the engine
				if err := db.Close(); err != nil {
					b.Error(err)
				}
			})
			flow := stet.Define("one", func(ctx stet.Context, n int) (int, error) {
				if kind == "task" {
					return doubleTask.Run(ctx, n, stet.OnStepQueue("q"))
				}
				return stet.Step(ctx, "double", func(context.Context) (int, error) { return 2 * n, nil }, stet.OnStepQueue("q"))
			})
			e := serve(b, stet.Config{Store: db, Workflows: []stet.Definition{flow}})
			createQueue(b, e, "q", stet.QueueSettings{})
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() { ended <- workUntil(ctx, e) }()
			slots := make(chan struct{}, 200)
			errs := make(chan error, b.N)
			b.ResetTimer()
			for i := range b.N {
				slots <- struct{}{}
				go func() {
					r, err := flow.Start(ctx, e, i, stet.ID(fmt.Sprint("r", i)))
					if err == nil {
						_, err = r.Wait(ctx)
					}
					<-slots
					errs <- err
				}()
			}
			for range b.N {
				if err := <-errs; err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			cancel()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		})
	}
}

// workUntil executes tasks until ctx ends: it leases while it ends those that it has.
func workUntil(ctx context.Context, e *stet.Engine) error {
	room := make(chan struct{}, 400)
	for ctx.Err() == nil {
		got, err := e.Tasks().Lease(ctx, stet.LeaseRequest{Worker: "w", Names: []string{"double"}, Max: 100,
			Wait: time.Minute})
		if err != nil {
			break
		}
		for _, task := range got.Tasks {
			room <- struct{}{}
			go func() {
				defer func() { <-room }()
				_ = e.Tasks().Complete(ctx, task.Lease, json.RawMessage("2")) // the run waits if it fails
			}()
		}
	}
	for range cap(room) {
		room <- struct{}{}
	}
	return nil
}
