package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

const (
	beat  = 50 * time.Millisecond // of a step, and of a wait
	beats = 5_000                 // of a run: more than are measured

	// settled is how long all goes on undisturbed before and after a node is stopped or
	// killed: then every run has gone on again.
	settled = 2 * time.Second

	failoverNodes = 2
)

// beating is a workflow of steps that take a beat each, and dozing one of waits.
var (
	beating = stet.Define(prefix+"failover", func(ctx stet.Context, p payload) (payload, error) {
		for range beats {
			err := stet.Do(ctx, "beat", func(ctx context.Context) error { return pause(ctx, beat) })
			if err != nil {
				return p, err
			}
		}
		return p, nil
	})
	dozing = stet.Define(prefix+"failover-waits", func(ctx stet.Context, p payload) (payload, error) {
		for range beats {
			if err := stet.Sleep(ctx, "wait", beat); err != nil {
				return p, err
			}
		}
		return p, nil
	})
)

// disturbance is an act on a node, with its time by the store's clock.
type disturbance struct {
	name       string
	from, till store.Time
	gate       time.Duration // of the longest pause of a run that waits; 0: none
}

// failover is a measurement of how long runs stand still when nodes stop, come, and are killed. Leases are those that
// an engine has by default.
type failover struct {
	cfg   *Config
	s     *session
	nodes []*node // oldest first
	all   []disturbance
}

// measureFailover measures how long runs stand still when one of several nodes stops in
// an orderly way, when another comes, when one is killed, and when the only one is killed and
// started again. On a store that one process at a time works on it measures the last of these.
func measureFailover(ctx context.Context, cfg *Config, r *Report) (err error) {
	if !cfg.shared() {
		return nil // of "all" on a store in the memory of one process
	}
	f := &failover{cfg: cfg}
	defer func() {
		for _, n := range f.nodes {
			err = errors.Join(err, n.stop())
		}
	}()
	nodes := 1
	if cfg.many() {
		nodes = cfg.Nodes
	}
	for range nodes {
		if err := f.start(ctx); err != nil {
			return err
		}
	}
	return cfg.outside(ctx, nodes, func(s *session) error {
		f.s = s
		kinds := []struct {
			name     string
			workflow *stet.Workflow[payload, payload]
			runs     []*stet.Run[payload]
		}{{"waiting", dozing, nil}, {"executing", beating, nil}}
		for k := range kinds {
			for i := range cfg.Runs {
				run, err := kinds[k].workflow.Start(ctx, s.Engine, newPayload(i))
				if err != nil {
					return err
				}
				kinds[k].runs = append(kinds[k].runs, run)
			}
		}
		if err := f.disturb(ctx, nodes); err != nil {
			return err
		}
		out := r.section("failover", "%d runs that wait for %s each time, and %d of steps that take it, on %d nodes",
			cfg.Runs, beat, cfg.Runs, nodes)
		for _, kind := range kinds {
			pauses, err := pausesOf(ctx, s, kind.runs, f.all)
			if err != nil {
				return err
			}
			for i, d := range f.all {
				out.durations(d.name+": longest pause of a run, "+kind.name, pauses[i], 50, 100)
				if d.gate > 0 && kind.name == "waiting" {
					out.atMost(d.name+": longest pause of a waiting run", milliseconds(percentile(pauses[i], 100)),
						milliseconds(d.gate), "ms")
				}
			}
		}
		return nil
	})
}

func (f *failover) start(ctx context.Context) error {
	n, err := startNode(ctx, f.cfg, roleBeat, false)
	if err == nil {
		f.nodes = append(f.nodes, n)
	}
	return err
}

// oldest removes the oldest node from the list.
func (f *failover) oldest() *node {
	n := f.nodes[0]
	f.nodes = f.nodes[1:]
	return n
}

// kill kills the oldest node.
func (f *failover) kill() error {
	n := f.oldest()
	err := n.command.Process.Kill()
	_ = n.stop() // its error: it was killed
	return err
}

// disturb does to the nodes what is measured.
func (f *failover) disturb(ctx context.Context, nodes int) error {
	const stops, killed = 500 * time.Millisecond, 2 * time.Second
	if nodes > 1 {
		if err := f.during(ctx, "a node stops", stops, func() error { return f.oldest().stop() }); err != nil {
			return err
		}
		if err := f.during(ctx, "a node comes", 0, func() error {
			return errors.Join(f.start(ctx), f.s.shared(ctx, nodes))
		}); err != nil {
			return err
		}
		if err := f.during(ctx, fmt.Sprintf("one of %d nodes is killed", nodes), killed, func() error {
			return errors.Join(f.kill(), f.s.shared(ctx, nodes-1))
		}); err != nil {
			return err
		}
	}
	for len(f.nodes) > 1 {
		if err := f.oldest().stop(); err != nil {
			return err
		}
	}
	return f.during(ctx, "the only node is killed and started again", killed, func() error {
		return errors.Join(f.kill(), f.start(ctx), f.s.shared(ctx, 1))
	})
}

// during notes when something is done, after all has gone on undisturbed and until it does again.
func (f *failover) during(ctx context.Context, name string, gate time.Duration, do func() error) error {
	if err := pause(ctx, settled); err != nil {
		return err
	}
	before, err := f.s.Describe(ctx)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if err := pause(ctx, settled); err != nil {
		return err
	}
	after, err := f.s.Describe(ctx)
	f.all = append(f.all, disturbance{name, before.Now, after.Now, gate})
	return err
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
