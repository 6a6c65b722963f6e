package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// measureBroadcast publishes one event to many runs that wait for it: it is
// registered at the topic, sent to each run, taken by it, and ends it.
func measureBroadcast(ctx context.Context, cfg *Config, r *Report) error {
	// A topic of its own: events of an earlier session are not for these runs.
	news := stet.Topic[payload]{Name: fmt.Sprintf("%snews-%016x", prefix, rand.Uint64()), Retention: time.Hour}
	var resumed atomic.Int64
	all := make(chan struct{})
	listener := stet.Define(prefix+"broadcast", func(ctx stet.Context, _ payload) (payload, error) {
		got, err := news.Receive(ctx)
		if err == nil && resumed.Add(1) == int64(cfg.Runs) {
			//stetvet:ignore channel the code holds the run where the test wants it
			close(all)
		}
		return got, err
	})
	s, err := cfg.serve(ctx, nil, listener)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		begun := time.Now()
		const batch = 1000
		for left := cfg.Runs; left > 0; left -= batch {
			if _, err := listener.StartAll(ctx, s.Engine, make([]payload, min(left, batch)), nil); err != nil {
				return err
			}
		}
		if err := s.reached(ctx, listener.Name(), store.Suspended, cfg.Runs); err != nil {
			return err
		}
		if err := s.waiting(ctx, news.Name, cfg.Runs); err != nil {
			return err
		}
		registered := time.Since(begun)
		begun = time.Now()
		if _, err := news.Publish(ctx, s.Engine, newPayload(1)); err != nil {
			return err
		}
		select { // no query disturbs the store while they go on
		case <-all:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.reached(ctx, listener.Name(), store.Succeeded, cfg.Runs); err != nil {
			return err
		}
		ended := time.Since(begun)
		events, err := s.Topics().Events(ctx, news.Name)
		if err != nil {
			return err
		}
		if n := events[len(events)-1].Received; n != int64(cfg.Runs) {
			return fmt.Errorf("%d runs waited for the event and %d got it", cfg.Runs, n)
		}
		rate := float64(cfg.Runs) / ended.Seconds()
		out := r.section("broadcast", "one event to %d runs that wait", cfg.Runs)
		out.figure("started and waiting", float64(cfg.Runs)/registered.Seconds(), "runs/s")
		out.figure("resumed and ended", rate, "runs/s")
		out.rows("resumed runs", rate, gates{0.15, 0.15, 0.15})
		return nil
	})
}

// waiting blocks until so many runs wait at a topic.
func (s *session) waiting(ctx context.Context, topic string, runs int) error {
	for {
		info, err := s.Topics().Info(ctx, topic)
		switch {
		case errors.Is(err, stet.ErrNotFound):
		case err != nil:
			return err
		case info.Waiting >= int64(runs):
			return nil
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}
