package main

import (
	"context"
	"fmt"
	"time"
)

// warmRuns is how many runs are executed before the first figure, if it has no fewer.
const warmRuns = 40

// measureRuns measures runs of several steps: many or few at a time, with large values, or one alone.
func measureRuns(ctx context.Context, s *spec, r runner, w *work, out *outcome) error {
	var runs, atATime, size int
	switch s.Workload {
	case "throughput":
		runs, atATime = s.Runs, someAtATime
	case "group":
		runs, atATime = s.Few, fewAtATime
	case "values":
		runs, atATime, size = s.Values, fewAtATime, s.Size
	case "latency":
		runs, atATime = s.Alone, 1
	default:
		return fmt.Errorf("expected a workload, found %q", s.Workload)
	}
	warm := min(warmRuns, runs)
	took := make([]time.Duration, runs)
	execute := func(first, n, atATime int) error {
		return inParallel(ctx, n, atATime, func(ctx context.Context, i int) error {
			in := newInput(first+i, s.Steps)
			in.Size = size
			begun := time.Now()
			got, err := r.execute(ctx, "", in)
			if err == nil && got != in {
				err = fmt.Errorf("run %d: expected the result %v, found %v", in.Number, in, got)
			}
			if first > 0 {
				took[i] = time.Since(begun)
			}
			return err
		})
	}
	return serving(ctx, r, someAtATime, func() error {
		if err := execute(0, warm, 10); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
		begun := time.Now()
		if err := execute(warm, runs, atATime); err != nil {
			return err
		}
		all := time.Since(begun)
		if err := w.steps.once((warm + runs) * s.Steps); err != nil {
			return err
		}
		switch s.Workload {
		case "latency":
			out.duration(fmt.Sprintf("one run of %d steps alone, p50", s.Steps), percentile(took, 50))
			out.duration(fmt.Sprintf("one run of %d steps alone, p99", s.Steps), percentile(took, 99))
		case "values":
			out.rate("steps with values of "+number(float64(s.Size))+" bytes, 10 runs at a time", "steps/s", runs*s.Steps, all)
		default:
			out.rate(fmt.Sprintf("runs of %d steps, %d at a time", s.Steps, atATime), "steps/s", runs*s.Steps, all)
		}
		return allDone(ctx, r, warm+runs)
	})
}

// measureTimers measures how late runs go on that sleep, or jobs begin that are due at a time.
func measureTimers(ctx context.Context, s *spec, sub subject, w *work, out *outcome) error {
	return serving(ctx, sub, s.Sleeps, func() error {
		err := inParallel(ctx, s.Sleeps, 10, func(ctx context.Context, i int) error { return sub.later(ctx, i, s.Sleep) })
		if err != nil {
			return err
		}
		met, err := until(ctx, s.Sleep+time.Minute, func() (bool, error) { return len(w.lateness()) >= s.Sleeps, nil })
		if err != nil || !met {
			return fmt.Errorf("expected that %d sleepers go on, found %d: %w", s.Sleeps, len(w.lateness()), err)
		}
		if err := allDone(ctx, sub, s.Sleeps); err != nil {
			return err
		}
		late := w.lateness()
		if len(late) != s.Sleeps {
			return fmt.Errorf("expected that %d sleepers go on once, found %d", s.Sleeps, len(late))
		}
		out.duration("lateness of timers, p50", percentile(late, 50))
		out.duration("lateness of timers, p99", percentile(late, 99))
		return nil
	})
}
