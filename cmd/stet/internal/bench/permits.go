package bench

import (
	"context"
	"fmt"
	"math"
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
	var found troubles
	s, err := cfg.serve(ctx, found.count, parent, child)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		out := r.section("permits", "%d children x %d steps, %d queues", cfg.Runs, cfg.Steps, permitQueues)
		stop := cfg.watchScripts(ctx)
		err := measurePermitKinds(ctx, cfg, out, s, parent)
		slowest := stop()
		if err != nil {
			return err
		}
		if slowest > 0 {
			out.figure("slowest script", milliseconds(slowest), "ms")
			out.atMost("permits: slowest script", milliseconds(slowest), 50, "ms")
		}
		logged, lost := float64(found.errors.Load()), float64(found.lost.Load())
		out.figure("errors logged", logged, "lines")
		out.figure("leases lost", lost, "shards")
		out.atMost("permits: errors logged", logged, 0, "lines")
		out.atMost("permits: leases lost", lost, 0, "shards")
		return nil
	})
}

// measurePermitKinds executes the parent once for each kind of limit.
func measurePermitKinds(ctx context.Context, cfg *Config, out section, s *session,
	parent *stet.Workflow[string, int]) error {
	free := 0.0
	for _, kind := range []struct {
		name     string
		settings *stet.QueueSettings
		possible float64 // steps/s, by the limit itself
	}{
		{"no permits", nil, math.Inf(1)},
		{"limit never reached", &stet.QueueSettings{Concurrency: 1000}, math.Inf(1)},
		{"rate of 400/s each", &stet.QueueSettings{Rate: 400, Per: time.Second}, 400 * permitQueues},
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
			continue
		}
		out.figure("share, "+kind.name, perSecond/free, "of no permits")
		out.atLeast("permits: share of what is possible, "+kind.name, perSecond/min(free, kind.possible), 0.3, "of it")
	}
	return nil
}
