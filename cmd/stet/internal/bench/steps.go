package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// sequence is a workflow of steps that return their input, one after the other.
func sequence(steps int) *stet.Workflow[payload, payload] {
	names := make([]string, steps)
	for i := range names {
		names[i] = fmt.Sprintf("step-%d", i)
	}
	return stet.Define(prefix+"steps", func(ctx stet.Context, p payload) (payload, error) {
		return takeSteps(ctx, names, p)
	})
}

func takeSteps(ctx stet.Context, names []string, p payload) (payload, error) {
	for _, name := range names {
		in := p
		var err error
		if p, err = stet.Step(ctx, name, func(context.Context) (payload, error) { return in, nil }); err != nil {
			return p, err
		}
	}
	return p, nil
}

// execute starts a run and waits for its end.
func execute(ctx context.Context, s *session, w *stet.Workflow[payload, payload], in payload) error {
	run, err := w.Start(ctx, s.Engine, in)
	if err != nil {
		return err
	}
	out, err := run.Wait(ctx)
	if err == nil && out != in {
		err = fmt.Errorf("run %s: expected the result %v, found %v", run.ID(), in, out)
	}
	return err
}

// warming is how many runs warmUp executes.
const warming = 20

// warmUp executes a few runs, so that one-time costs are not measured.
func warmUp(ctx context.Context, s *session, w *stet.Workflow[payload, payload]) error {
	return inParallel(ctx, warming, 10, func(ctx context.Context, i int) error {
		return execute(ctx, s, w, newPayload(i))
	})
}

func measureThroughput(ctx context.Context, cfg *Config, r *Report) error {
	w := sequence(cfg.Steps)
	s, err := cfg.serve(ctx, nil, w)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		if err := warmUp(ctx, s, w); err != nil {
			return err
		}
		perSecond, err := executeRuns(ctx, cfg, s, w)
		if err != nil {
			return err
		}
		out := r.section("throughput", "%d runs x %d steps, %d at a time", cfg.Runs, cfg.Steps, cfg.Concurrency)
		out.figure("runs", perSecond, "runs/s")
		out.figure("steps", perSecond*float64(cfg.Steps), "steps/s")
		rows := perSecond * float64(cfg.Steps+2) // the start, the steps, the end
		out.figure("rows", rows, "rows/s")
		out.rows("runs", rows, gates{0.45, 0.30, 0.25})
		return nil
	})
}

// executeRuns executes the config's runs and returns how many per second.
func executeRuns(ctx context.Context, cfg *Config, s *session, w *stet.Workflow[payload, payload]) (float64, error) {
	begun := time.Now()
	err := inParallel(ctx, cfg.Runs, cfg.Concurrency,
		func(ctx context.Context, i int) error { return execute(ctx, s, w, sizedPayload(i, cfg.ValueSize)) })
	return float64(cfg.Runs) / max(time.Since(begun), 1).Seconds(), err
}

func measureLatency(ctx context.Context, cfg *Config, r *Report) error {
	w := sequence(cfg.Steps)
	s, err := cfg.serve(ctx, nil, w)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		if err := warmUp(ctx, s, w); err != nil {
			return err
		}
		durations := make([]time.Duration, cfg.Runs)
		for i := range durations {
			begun := time.Now()
			if err := execute(ctx, s, w, newPayload(i)); err != nil {
				return err
			}
			durations[i] = time.Since(begun)
		}
		out := r.section("latency", "%d runs x %d steps, one at a time", cfg.Runs, cfg.Steps)
		out.durations("run", durations, 50, 99)
		if cfg.Steps == latencySteps {
			out.commits("run p50", percentile(durations, 50), gates{15, 12, 15})
		}
		return nil
	})
}

// fan is a workflow of steps in parallel. It returns their number.
func fan(steps int) *stet.Workflow[payload, int] {
	items := make([]int, steps)
	for i := range items {
		items[i] = i
	}
	return stet.Define(prefix+"fanout", func(ctx stet.Context, p payload) (int, error) {
		results, err := stet.Map(ctx, "item", items, func(ctx stet.Context, item int) (payload, error) {
			return stet.Step(ctx, "work", func(context.Context) (payload, error) { return payload{item, p.Text}, nil })
		})
		return len(results), err
	})
}

func measureFanout(ctx context.Context, cfg *Config, r *Report) error {
	shapes := []struct{ runs, steps int }{{20, 100}, {1, 10_000}}
	if cfg.Runs > 0 || cfg.Steps > 0 {
		orDefault(&cfg.Runs, shapes[0].runs)
		orDefault(&cfg.Steps, shapes[0].steps)
		shapes = shapes[:1]
		shapes[0].runs, shapes[0].steps = cfg.Runs, cfg.Steps
	}
	for _, shape := range shapes {
		w := fan(shape.steps)
		s, err := cfg.serve(ctx, nil, w)
		if err != nil {
			return err
		}
		err = s.closing(ctx, func(ctx context.Context) error { return fanOut(ctx, s, w, shape.runs, shape.steps, r) })
		if err != nil {
			return err
		}
	}
	return nil
}

func fanOut(ctx context.Context, s *session, w *stet.Workflow[payload, int], runs, steps int, r *Report) error {
	inputs := make([]payload, runs)
	for i := range inputs {
		inputs[i] = newPayload(i)
	}
	begun := time.Now()
	started, err := w.StartAll(ctx, s.Engine, inputs, nil)
	if err != nil {
		return err
	}
	for _, run := range started {
		n, err := run.Wait(ctx)
		if err != nil {
			return err
		}
		if n != steps {
			return fmt.Errorf("run %s: expected %d results, found %d", run.ID(), steps, n)
		}
	}
	perSecond := float64(runs*steps) / time.Since(begun).Seconds()
	out := r.section("fanout", "%d runs x %d parallel steps", runs, steps)
	out.figure("steps", perSecond, "steps/s")
	out.rows(fmt.Sprintf("%d runs x %d", runs, steps), perSecond, gates{0.6, 0.30, 0.25})
	return nil
}
