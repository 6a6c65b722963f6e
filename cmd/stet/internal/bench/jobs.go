package bench

import (
	"context"
	"time"

	"github.com/stet-run/stet"
)

// perCall is how many jobs one call puts in.
const perCall = 1000

// measureJobs measures jobs of one step on a queue, put in and worked off at once. Then an engine that executes nothing
// puts them in, and another one works them off.
func measureJobs(ctx context.Context, cfg *Config, r *Report) error {
	w := stet.Define(prefix+"jobs", func(ctx stet.Context, p payload) (payload, error) {
		return stet.Step(ctx, "work", func(context.Context) (payload, error) { return p, nil })
	}, stet.OnQueue{Name: prefix + "jobs"})
	s, err := cfg.serve(ctx, nil, w)
	if err != nil {
		return err
	}
	out := r.section("jobs", "%d jobs of one step, %d at a time", cfg.Runs, cfg.Concurrency)
	err = s.closing(ctx, func(ctx context.Context) error {
		err := s.Queues().Create(ctx, prefix+"jobs", stet.QueueSettings{Concurrency: cfg.Concurrency})
		if err != nil {
			return err
		}
		begun := time.Now()
		if err := putIn(ctx, cfg, s.Engine, w); err != nil {
			return err
		}
		if err := s.ended(ctx, w.Name()); err != nil {
			return err
		}
		out.figure("put in and worked off at once", perSecond(cfg.Runs, begun), "jobs/s")
		return nil
	})
	if err != nil {
		return err
	}
	err = cfg.starting(ctx, func(e *stet.Engine) error {
		begun := time.Now()
		err := putIn(ctx, cfg, e, w)
		out.figure("put in, 1,000 in a call", perSecond(cfg.Runs, begun), "jobs/s")
		return err
	})
	if err != nil {
		return err
	}
	begun := time.Now()
	if s, err = cfg.serve(ctx, nil, w); err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		if err := s.ended(ctx, w.Name()); err != nil {
			return err
		}
		out.figure("worked off", perSecond(cfg.Runs, begun), "jobs/s")
		return nil
	})
}

func perSecond(n int, since time.Time) float64 {
	return float64(n) / max(time.Since(since), 1).Seconds()
}

// putIn starts the jobs, so many in a call.
func putIn(ctx context.Context, cfg *Config, e *stet.Engine, w *stet.Workflow[payload, payload]) error {
	for done := 0; done < cfg.Runs; done += perCall {
		inputs := make([]payload, min(perCall, cfg.Runs-done))
		for i := range inputs {
			inputs[i] = newPayload(done + i)
		}
		if _, err := w.StartAll(ctx, e, inputs, nil); err != nil {
			return err
		}
	}
	return nil
}
