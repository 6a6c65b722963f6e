package guide_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

type Image struct{ URL string }

type Thumb struct{ Width int }

var Resize = stet.Task[Image, Thumb]("resize")

var Publish = stet.Define("publish", func(ctx stet.Context, img Image) (Thumb, error) {
	return Resize.Run(ctx, img, stet.Permit{Queue: "media"}, stet.Retry{Attempts: 5, Timeout: 10 * time.Minute})
})

var tasks = []stet.TaskFunc{Resize.Func(func(ctx context.Context, img Image) (Thumb, error) {
	return Thumb{Width: 128}, nil
})}

func TestWorkers(t *testing.T) {
	for _, own := range []bool{false, true} {
		cfg := stet.Config{Workflows: []stet.Definition{Publish}}
		if own {
			cfg.Tasks = tasks
		}
		stettest.Run(t, cfg, func(t *testing.T, env *stettest.Env) {
			if err := env.Engine.Queues().Create(t.Context(), "media", stet.QueueSettings{Concurrency: 4}); err != nil {
				t.Fatal(err)
			}
			run, err := Publish.Start(t.Context(), env.Engine, Image{"https://example.org/a.png"})
			if err != nil {
				t.Fatal(err)
			}
			if !own {
				tasks := env.Engine.Tasks()
				got, err := tasks.Lease(t.Context(), stet.LeaseRequest{Names: []string{"resize"}, Wait: time.Minute})
				if err != nil || len(got.Tasks) != 1 {
					t.Fatalf("leased %+v, %v", got, err)
				}
				if err := tasks.Complete(t.Context(), got.Tasks[0].Lease, json.RawMessage(`{"Width":128}`)); err != nil {
					t.Fatal(err)
				}
			}
			if thumb, err := run.Wait(t.Context()); err != nil || thumb.Width != 128 {
				t.Errorf("%+v, %v", thumb, err)
			}
		})
	}
}
