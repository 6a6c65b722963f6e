package bench

import (
	"context"
	"time"

	"github.com/stet-run/stet/store"
)

// measureBacklog lets so many runs become due while no engine works, as in an outage. Then it measures how long a fresh
// run of one step takes that is started as soon as an engine works again.
func measureBacklog(ctx context.Context, cfg *Config, r *Report) error {
	rest := time.Second + time.Duration(cfg.Runs)*time.Millisecond // all are asleep before the first is due
	due, err := leaveAsleep(ctx, cfg, rest)
	if err != nil {
		return err
	}
	if err := pause(ctx, time.Until(due)); err != nil {
		return err
	}
	fresh := sequence(1)
	s, err := cfg.serve(ctx, nil, sleepUntilWoken, fresh)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		begun := time.Now()
		if err := execute(ctx, s, fresh, newPayload(0)); err != nil {
			return err
		}
		took := milliseconds(time.Since(begun))
		left, err := s.Runs().Count(ctx, store.Filter{Workflows: []string{sleepUntilWoken.Name()},
			Statuses: []store.Status{store.Queued, store.Running, store.Suspended}})
		if err != nil {
			return err
		}
		waiting := 0.0
		for _, t := range left {
			waiting += float64(t.Runs)
		}
		if err := s.ended(ctx, sleepUntilWoken.Name()); err != nil {
			return err
		}
		out := r.section("backlog", "a fresh run of one step, beside %d that have become due", cfg.Runs)
		out.figure("fresh run", took, "ms")
		out.figure("due runs that it has overtaken", waiting, "runs")
		out.figure("until none is left", milliseconds(time.Since(begun)), "ms")
		out.atMost("fresh run", took, 1000, "ms")
		return nil
	})
}

// leaveAsleep starts runs that sleep for rest, lets the engine end when all are suspended, and returns when the last
// one is due.
func leaveAsleep(ctx context.Context, cfg *Config, rest time.Duration) (due time.Time, err error) {
	s, err := cfg.serve(ctx, nil, sleepUntilWoken)
	if err != nil {
		return due, err
	}
	err = s.closing(ctx, func(ctx context.Context) error {
		inputs := make([]time.Duration, cfg.Runs)
		for i := range inputs {
			inputs[i] = rest
		}
		if _, err := sleepUntilWoken.StartAll(ctx, s.Engine, inputs, nil); err != nil {
			return err
		}
		err := s.reached(ctx, sleepUntilWoken.Name(), store.Suspended, cfg.Runs)
		due = time.Now().Add(rest)
		return err
	})
	return due, err
}
