package bench

import (
	"context"
	"time"

	"github.com/stet-run/stet/store"
)

// retentionPart is how many rows a part of a sweep deletes, as in a pass that hurries.
const retentionPart = 2000

// measureRetention measures how many runs a second are made, with all their steps, and deleted. The parts of the sweep
// go without rest.
func measureRetention(ctx context.Context, cfg *Config, r *Report) error {
	if !cfg.onDisk() {
		return nil // of "all" on a store in memory, where it would wait for a minute for nothing
	}
	w := sequence(cfg.Steps)
	s, err := cfg.serve(ctx, nil, w)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		if err := warmUp(ctx, s, w); err != nil {
			return err
		}
		made, err := executeRuns(ctx, cfg, s, w)
		if err != nil {
			return err
		}
		if err := pause(ctx, time.Duration(store.MinKeep)*time.Microsecond+time.Second); err != nil {
			return err
		}
		about, err := s.Describe(ctx)
		if err != nil {
			return err
		}
		req := store.SweepRequest{Leases: about.Leases, Most: retentionPart,
			Rules: []store.Retention{{Workflow: w.Name(), Status: store.Succeeded}}}
		deleted, begun := 0, time.Now()
		for done := false; !done; {
			part, err := s.db.Sweep(ctx, req)
			if err != nil {
				return err
			}
			deleted, done, req.From = deleted+part.Runs, part.Done, part.Next
		}
		gone := float64(deleted) / max(time.Since(begun), 1).Seconds()
		out := r.section("retention", "%d runs x %d steps", cfg.Runs, cfg.Steps)
		out.figure("made", made, "runs/s")
		out.figure("deleted", gone, "runs/s")
		if cfg.Postgres != "" || cfg.Redis != "" {
			out.atLeast("deleted over made", gone/made, out.gate(gates{0, 2, 1.5}), "times")
		}
		return nil
	})
}

// onDisk reports whether the store outlives this process.
func (cfg *Config) onDisk() bool { return cfg.File != "" || cfg.Postgres != "" || cfg.Redis != "" }
