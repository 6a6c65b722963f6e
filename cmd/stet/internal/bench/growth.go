package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet"
)

// unread is a message that its run does not receive before it has the last one.
var unread = stet.Message[payload]("unread")

// busy is a workflow that keeps its run from receiving messages.
var busy = stet.Define(prefix+"growth", func(ctx stet.Context, _ payload) (payload, error) {
	return goOn.Receive(ctx)
})

// measureGrowth measures starts on a queue that no engine has served, and messages to a run that does not receive them:
// the last tenth of each, beside the first. What waits already must not make the next ones dearer.
func measureGrowth(ctx context.Context, cfg *Config, r *Report) error {
	out := r.section("growth", "%d starts, then %d messages, %d at a time", cfg.Runs, cfg.Runs, cfg.Concurrency)
	if err := measureUnserved(ctx, cfg, out); err != nil {
		return err
	}
	s, err := cfg.serve(ctx, nil, busy)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		run, err := busy.Start(ctx, s.Engine, newPayload(0))
		if err != nil {
			return err
		}
		err = out.tenths(ctx, cfg, "messages", "messages/s", func(ctx context.Context, i int) error {
			return unread.Send(ctx, s.Engine, run.ID(), newPayload(i))
		})
		if err != nil {
			return err
		}
		if err := goOn.Send(ctx, s.Engine, run.ID(), newPayload(0)); err != nil {
			return err
		}
		_, err = run.Wait(ctx)
		return err
	})
}

// measureUnserved starts runs on a queue by an engine that executes nothing, and lets another one execute them then.
func measureUnserved(ctx context.Context, cfg *Config, out section) error {
	queued := stet.Define(prefix+"unserved", func(_ stet.Context, p payload) (payload, error) { return p, nil })
	s, err := cfg.serve(ctx, nil, queued) // the store then knows the workflow
	if err != nil {
		return err
	}
	if err := s.closing(ctx, func(context.Context) error { return nil }); err != nil {
		return err
	}
	err = cfg.starting(ctx, func(e *stet.Engine) error {
		queue := stet.OnQueue{Name: prefix + "growth"}
		if err := e.Queues().Create(ctx, queue.Name, stet.QueueSettings{Concurrency: 100}); err != nil {
			return err
		}
		return out.tenths(ctx, cfg, "starts on a queue", "starts/s", func(ctx context.Context, i int) error {
			_, err := queued.Start(ctx, e, newPayload(i), queue)
			return err
		})
	})
	if err != nil {
		return err
	}
	if s, err = cfg.serve(ctx, nil, queued); err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error { return s.ended(ctx, queued.Name()) })
}

// tenths does something as often as the config has runs. It compares the rate of the last tenth with that of the first.
func (s section) tenths(
	ctx context.Context, cfg *Config, name, unit string, do func(context.Context, int) error,
) error {
	part := max(1, cfg.Runs/10)
	rates := make([]float64, 0, 10)
	for done := 0; done < cfg.Runs; done += part {
		n := min(part, cfg.Runs-done)
		begun := time.Now()
		err := inParallel(ctx, n, cfg.Concurrency, func(ctx context.Context, i int) error { return do(ctx, done+i) })
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		rates = append(rates, float64(n)/max(time.Since(begun), 1).Seconds())
	}
	first, last := rates[0], rates[len(rates)-1]
	if len(rates) > 3 { // the first part has one-time costs
		first, last = slices.Max(rates[:3]), slices.Max(rates[len(rates)-3:])
	}
	s.figure(name+", first", first, unit)
	s.figure(name+", last", last, unit)
	s.atLeast(name+": last over first", last/first, 0.7, "")
	return nil
}
