package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

const (
	passSingles = 30 // runs that are measured one at a time
	passTurns   = 3
	passDue     = 3                // times the config's runs are due at the begin
	passEvery   = time.Millisecond // so that a pass follows the former one
)

// measurePass measures runs while an engine deletes others, and while it deletes none, in turns.
func measurePass(ctx context.Context, cfg *Config, r *Report) error {
	if !cfg.onDisk() {
		return nil // of "all" on a store in memory, where it would wait for a minute for nothing
	}
	w := sequence(cfg.Steps)
	due := *cfg
	due.Runs = passDue * cfg.Runs
	keep := time.Duration(store.MinKeep) * time.Microsecond
	_, _, err := besidePass(ctx, &due, w, time.Hour)
	if err == nil {
		err = pause(ctx, keep+time.Second)
	}
	var rates, singles [2][]float64 // without a pass, beside one
	for range passTurns {
		for i, every := range []time.Duration{time.Hour, passEvery} {
			if err != nil {
				return err
			}
			var rate, single float64
			rate, single, err = besidePass(ctx, cfg, w, every)
			rates[i], singles[i] = append(rates[i], rate), append(singles[i], single)
		}
	}
	left, leftErr := cfg.countOf(ctx, w.Name())
	if err != nil || leftErr != nil {
		return errors.Join(err, leftErr)
	}
	out := r.section("pass", "%d runs x %d steps, %d at a time", cfg.Runs, cfg.Steps, cfg.Concurrency)
	out.figure("runs, no pass", slices.Max(rates[0]), "runs/s")
	out.figure("runs beside a pass", slices.Max(rates[1]), "runs/s")
	out.figure("single run p50, no pass", slices.Min(singles[0]), "ms")
	out.figure("single run p50 beside a pass", slices.Min(singles[1]), "ms")
	own := 2 * passTurns * (cfg.Runs + passSingles + warming)
	out.figure("due runs that no pass has reached", max(0, left-float64(own)), "runs")
	out.atLeast("runs beside a pass, of those without", slices.Max(rates[1])/slices.Max(rates[0]), 0.9, "times")
	out.atMost("single run beside a pass, of one without", slices.Min(singles[1])/slices.Min(singles[0]), 1.1, "times")
	return nil
}

// besidePass executes the config's runs, and some one at a time, by an engine that begins a pass of retention so often.
// It returns the runs per second and the median of the single ones in milliseconds.
func besidePass(
	ctx context.Context, cfg *Config, w *stet.Workflow[payload, payload], every time.Duration,
) (rate, single float64, err error) {
	s, err := cfg.serve(ctx, func(c *stet.Config) {
		c.Sweep, c.Retention = every, stet.KeepFor(time.Duration(store.MinKeep)*time.Microsecond)
	}, w)
	if err != nil {
		return 0, 0, err
	}
	err = s.closing(ctx, func(ctx context.Context) error {
		if err := warmUp(ctx, s, w); err != nil {
			return err
		}
		took := make([]time.Duration, passSingles)
		for i := range took {
			begun := time.Now()
			if err := execute(ctx, s, w, newPayload(i)); err != nil {
				return err
			}
			took[i] = time.Since(begun)
		}
		single = milliseconds(percentile(took, 50))
		rate, err = executeRuns(ctx, cfg, s, w)
		return err
	})
	return rate, single, err
}

// countOf returns how many ended runs of a workflow the store has.
func (cfg *Config) countOf(ctx context.Context, workflow string) (float64, error) {
	db, err := cfg.Open(ctx)
	if err != nil {
		return 0, err
	}
	tallies, err := db.Count(ctx, store.Filter{Workflows: []string{workflow}})
	n := 0.0
	for _, t := range tallies {
		n += float64(t.Runs)
	}
	return n, errors.Join(err, db.Close())
}
