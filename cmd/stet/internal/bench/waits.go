package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

var (
	// goOn is the message that the workflows of this package wait for.
	goOn = stet.Message[payload]("go-on")

	receiver = stet.Define(prefix+"message", func(ctx stet.Context, _ payload) (payload, error) {
		return goOn.Receive(ctx)
	})
)

func measureMessage(ctx context.Context, cfg *Config, r *Report) error {
	s, err := cfg.serve(ctx, nil, receiver)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		durations, err := sendEach(ctx, s, cfg.Runs)
		if err != nil {
			return err
		}
		out := r.section("message", "%d runs that wait", cfg.Runs)
		out.durations("send to end", durations, 50, 99)
		out.commits("send to end p50", percentile(durations, 50), gates{3, 3, 3})
		return nil
	})
}

// sendEach lets so many runs wait for a message, and returns how long each takes from
// the send to its end, one after the other.
func sendEach(ctx context.Context, s *session, count int) ([]time.Duration, error) {
	runs, err := receiver.StartAll(ctx, s.Engine, make([]payload, count), nil)
	if err != nil {
		return nil, err
	}
	if err := s.reached(ctx, receiver.Name(), store.Suspended, count); err != nil {
		return nil, err
	}
	durations := make([]time.Duration, count)
	for i, run := range runs {
		begun := time.Now()
		if err := goOn.Send(ctx, s.Engine, run.ID(), newPayload(i)); err != nil {
			return nil, err
		}
		got, err := run.Wait(ctx)
		if err != nil {
			return nil, err
		}
		durations[i] = time.Since(begun)
		if got != newPayload(i) {
			return nil, fmt.Errorf("run %s: expected message %d, found %v", run.ID(), i, got)
		}
	}
	return durations, nil
}

// timerSleep is what each run of the workload timers sleeps.
const timerSleep = 2 * time.Second

// lateness is how long after its deadline each run has gone on, by run ID.
type lateness struct {
	mu  sync.Mutex
	all map[string]time.Duration
}

func (l *lateness) note(runID string, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, again := l.all[runID]; !again {
		l.all[runID] = d
	}
}

// sleeper notes when its code goes on, by this machine's clock, which is the
// store's for an SQLite file.
func (l *lateness) sleeper() *stet.Workflow[payload, payload] {
	return stet.Define(prefix+"timers", func(ctx stet.Context, p payload) (payload, error) {
		deadline := stet.Now(ctx).Add(timerSleep)
		if err := stet.Sleep(ctx, "sleep", timerSleep); err != nil {
			return p, err
		}
		//stetvet:ignore clock the time of the process is what is measured
		l.note(stet.RunID(ctx), time.Since(deadline))
		return p, nil
	})
}

func measureTimers(ctx context.Context, cfg *Config, r *Report) error {
	late := lateness{all: map[string]time.Duration{}}
	w := late.sleeper()
	s, err := cfg.serve(ctx, nil, w)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		ids := make([]string, cfg.Runs)
		err := inParallel(ctx, cfg.Runs, cfg.Concurrency, func(ctx context.Context, i int) error {
			run, err := w.Start(ctx, s.Engine, newPayload(i))
			if err == nil {
				ids[i] = run.ID()
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := s.reached(ctx, w.Name(), store.Succeeded, cfg.Runs); err != nil {
			return err
		}
		durations := make([]time.Duration, cfg.Runs)
		for i, id := range ids {
			durations[i] = late.all[id]
		}
		out := r.section("timers", "%d runs that sleep %s", cfg.Runs, timerSleep)
		out.figure("lateness mean", milliseconds(mean(durations)), "ms")
		out.durations("lateness", durations, 99)
		earliest := milliseconds(percentile(durations, 0))
		out.figure("lateness earliest", earliest, "ms")
		out.atMost("lateness p99", milliseconds(percentile(durations, 99)), 20, "ms")
		out.atLeast("lateness earliest", earliest, 0, "ms")
		return nil
	})
}
