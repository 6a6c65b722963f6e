package bench

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// trip is how far away the server is in workload unusual, there and back: another zone of a data centre.
const trip = time.Millisecond

// shown is the value that a run sets.
var shown = stet.Value[int]("bench")

// showing is a workflow that sets a value with each step, until it is terminated.
var showing = stet.Define(prefix+"unusual", func(ctx stet.Context, p payload) (payload, error) {
	for i := range beats * 100 {
		if err := shown.Set(ctx, i); err != nil {
			return p, err
		}
		if err := stet.Do(ctx, "step", func(context.Context) error { return nil }); err != nil {
			return p, err
		}
	}
	return p, nil
})

// measureUnusual measures plain runs, and the same beside one run that sets a value with each step, on a server that is
// a trip away.
func measureUnusual(ctx context.Context, cfg *Config, r *Report) (err error) {
	if cfg.OpenVia == nil {
		return nil // of "all" on a store without a server, or with several
	}
	at, err := url.Parse(cfg.Server)
	if err != nil {
		return err
	}
	way, err := newDistance(at.Host, trip, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, way.close()) }()
	far := *cfg
	at.Host = way.addr()
	far.Open = func(ctx context.Context) (store.Store, error) { return cfg.OpenVia(ctx, at.String()) }
	w := sequence(cfg.Steps)
	s, err := far.serve(ctx, nil, w, showing)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		if err := warmUp(ctx, s, w); err != nil {
			return err
		}
		plain, err := executeRuns(ctx, cfg, s, w)
		if err != nil {
			return err
		}
		run, err := showing.Start(ctx, s.Engine, newPayload(0))
		if err != nil {
			return err
		}
		beside, err := executeRuns(ctx, cfg, s, w)
		if err != nil {
			return err
		}
		if _, err := s.Runs().Terminate(ctx, run.ID(), stet.Act{Why: "it was measured"}); err != nil {
			return err
		}
		out := r.section("unusual", "%d runs x %d steps, %d at a time, the server %s away", cfg.Runs, cfg.Steps,
			cfg.Concurrency, trip)
		out.figure("runs alone", plain, "runs/s")
		out.figure("runs beside one that sets values", beside, "runs/s")
		out.atLeast("beside one that sets values, of alone", beside/plain, 0.7, "times")
		return nil
	})
}
