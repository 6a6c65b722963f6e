package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stet-run/stet"
)

// permitQueues is the number of queues among which the children are divided.
const permitQueues = 5

// batchOfSteps is a piece of work for a child.
type batchOfSteps struct {
	Queue string // whose permits its steps need; "": none
	Steps int
}

// measurePermits executes a parent with children, whose parallel steps have no limit, one
// that is never reached, and a rate: what the permits cost beside the steps.
func measurePermits(ctx context.Context, cfg *Config, r *Report) error {
	child := stet.Define(prefix+"permits-child", func(ctx stet.Context, in batchOfSteps) (int, error) {
		items := make([]int, in.Steps)
		var opts []stet.StepOption
		if in.Queue != "" {
			opts = append(opts, stet.OnStepQueue(in.Queue))
		}
		done, err := stet.Map(ctx, "items", items, func(ctx stet.Context, _ int) (int, error) {
			return stet.Step(ctx, "load", func(context.Context) (int, error) { return 1, nil }, opts...)
		})
		return len(done), err
	})
	parent := stet.Define(prefix+"permits", func(ctx stet.Context, queues string) (int, error) {
		items := make([]int, cfg.Runs)
		for i := range items {
			items[i] = i
		}
		counts, err := stet.Map(ctx, "children", items, func(ctx stet.Context, i int) (int, error) {
			in := batchOfSteps{Steps: cfg.Steps}
			if queues != "" {
				in.Queue = fmt.Sprintf("%s-t%d", queues, i%permitQueues)
			}
			return child.Call(ctx, in)
		})
		total := 0
		for _, n := range counts {
			total += n
		}
		return total, err
	})
	s, err := cfg.serve(ctx, nil, parent, child)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		out := r.section("permits", "%d children x %d steps, %d queues", cfg.Runs, cfg.Steps, permitQueues)
		free := 0.0
		for _, kind := range []struct {
			name     string
			settings *stet.QueueSettings
		}{
			{"no permits", nil},
			{"limit never reached", &stet.QueueSettings{Concurrency: 1000}},
			{"rate of 400/s each", &stet.QueueSettings{Rate: 400, Per: time.Second}},
		} {
			queues := ""
			if kind.settings != nil {
				queues = fmt.Sprintf("%sq-%016x", prefix, rand.Uint64())
				for i := range permitQueues {
					name := fmt.Sprintf("%s-t%d", queues, i)
					if err := s.Queues().Create(ctx, name, *kind.settings); err != nil {
						return err
					}
				}
			}
			begun := time.Now()
			run, err := parent.Start(ctx, s.Engine, queues)
			if err != nil {
				return err
			}
			got, err := run.Wait(ctx)
			if want := cfg.Runs * cfg.Steps; err == nil && got != want {
				err = fmt.Errorf("run %s: expected %d steps, found %d", run.ID(), want, got)
			}
			if err != nil {
				return err
			}
			perSecond := float64(got) / time.Since(begun).Seconds()
			out.figure("steps, "+kind.name, perSecond, "steps/s")
			if kind.settings == nil {
				free = perSecond
			} else {
				out.figure("share, "+kind.name, perSecond/free, "of no permits")
			}
		}
		return nil
	})
}
