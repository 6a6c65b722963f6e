package bench

import (
	"context"
	"errors"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

const (
	failoverLease = 3 * time.Second
	beat          = 50 * time.Millisecond // of a step
	beats         = 5_000                 // of a run: more than are measured

	// settled is how long all goes on undisturbed before and after a node is stopped or
	// killed: then every run has gone on again.
	settled = 2 * time.Second
)

// beating is a workflow of steps that take a beat each.
var beating = stet.Define(prefix+"failover", func(ctx stet.Context, p payload) (payload, error) {
	for range beats {
		err := stet.Do(ctx, "beat", func(ctx context.Context) error { return pause(ctx, beat) })
		if err != nil {
			return p, err
		}
	}
	return p, nil
})

// disturbance is an act on a node, with its time by the store's clock.
type disturbance struct {
	name       string
	from, till store.Time
	gate       time.Duration // of the longest pause of a run; 0: none
}

// measureFailover measures how long runs stand still when one of several nodes stops in
// an orderly way, when another comes, and when one is killed.
func measureFailover(ctx context.Context, cfg *Config, r *Report) (err error) {
	if !cfg.many() {
		return nil // of "all" on a store that one process at a time works on
	}
	var nodes []*node
	defer func() {
		for _, n := range nodes {
			err = errors.Join(err, n.stop())
		}
	}()
	start := func() error {
		n, err := startNode(ctx, cfg, roleBeat, false)
		if err == nil {
			nodes = append(nodes, n)
		}
		return err
	}
	first := func() *node {
		n := nodes[0]
		nodes = nodes[1:]
		return n
	}
	for range cfg.Nodes {
		if err := start(); err != nil {
			return err
		}
	}
	return cfg.outside(ctx, cfg.Nodes, func(s *session) error {
		runs := make([]*stet.Run[payload], cfg.Runs)
		for i := range runs {
			if runs[i], err = beating.Start(ctx, s.Engine, newPayload(i)); err != nil {
				return err
			}
		}
		var all []disturbance
		disturb := func(name string, gate time.Duration, do func() error) error {
			if err := pause(ctx, settled); err != nil {
				return err
			}
			d := disturbance{name: name, gate: gate}
			before, err := s.Describe(ctx)
			if err != nil {
				return err
			}
			if err := do(); err != nil {
				return err
			}
			if err := pause(ctx, settled); err != nil {
				return err
			}
			after, err := s.Describe(ctx)
			d.from, d.till = before.Now, after.Now
			all = append(all, d)
			return err
		}
		err := disturb("a node stops", 500*time.Millisecond, func() error { return first().stop() })
		if err != nil {
			return err
		}
		if err := disturb("a node comes", 0, func() error {
			return errors.Join(start(),
				s.shared(ctx, cfg.Nodes))
		}); err != nil {
			return err
		}
		err = disturb("a node is killed", 5*time.Second, func() error {
			n := first()
			err := n.command.Process.Kill()
			_ = n.stop() // its error: it was killed
			return errors.Join(err, s.shared(ctx, cfg.Nodes-1))
		})
		if err != nil {
			return err
		}
		pauses, err := pausesOf(ctx, s, runs, all)
		if err != nil {
			return err
		}
		out := r.section("failover", "%d runs on %d nodes, lease %s, a step each %s",
			cfg.Runs, cfg.Nodes, failoverLease, beat)
		for i, d := range all {
			out.durations(d.name+": longest pause of a run", pauses[i], 50, 100)
			if d.gate > 0 {
				out.atMost(d.name+": longest pause", milliseconds(percentile(pauses[i], 100)), milliseconds(d.gate), "ms")
			}
		}
		return nil
	})
}

// pausesOf ends runs, and returns for each disturbance the longest time that each run
// took from one step to the next.
func pausesOf(ctx context.Context, s *session, runs []*stet.Run[payload], all []disturbance) ([][]time.Duration,
	error) {
	pauses := make([][]time.Duration, len(all))
	for _, run := range runs {
		if _, err := s.Runs().Terminate(ctx, run.ID(), stet.Act{Why: "it was measured"}); err != nil {
			return nil, err
		}
		entries, err := s.Runs().History(ctx, run.ID(), stet.HistoryQuery{})
		if err != nil {
			return nil, err
		}
		longest := make([]time.Duration, len(all))
		ends := map[int64]time.Time{}
		for _, e := range entries {
			ends[e.Number] = e.Ended
		}
		for number, end := range ends {
			before, ok := ends[number-1]
			for i, d := range all {
				if ok && end.After(d.from.Time()) && before.Before(d.till.Time()) {
					longest[i] = max(longest[i], end.Sub(before))
				}
			}
		}
		for i := range all {
			pauses[i] = append(pauses[i], longest[i])
		}
	}
	return pauses, nil
}
