package bench

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// sleepUntilWoken is a workflow that sleeps for as long as its input says.
var sleepUntilWoken = stet.Define(prefix+"sleepers", func(ctx stet.Context, d time.Duration) (bool, error) {
	return true, stet.Sleep(ctx, "sleep", d)
})

// idleTime is how long the store calls of an idle process are counted.
const idleTime = 5 * time.Second

const (
	shortSleep = 2 * time.Second  // long enough for a run to be suspended
	longSleep  = 1000 * time.Hour // longer than any measurement
	maxWarmUp  = 100_000          // runs whose rows fill all caches of the store
)

// measureSleepers measures the cost of so many runs asleep, and the time until the next process then owns the store.
func measureSleepers(ctx context.Context, cfg *Config, r *Report) error {
	out := r.section("sleepers", "%d runs asleep", cfg.Runs)
	if err := measureAsleep(ctx, cfg, out); err != nil {
		return err
	}
	begun := time.Now()
	s, err := cfg.serve(ctx, nil, sleepUntilWoken)
	if err != nil {
		return err
	}
	took := milliseconds(time.Since(begun))
	out.figure("opening the store to owning it", took, "ms")
	out.atMost("opening the store to owning it", took, 2000, "ms")
	return s.closing(ctx, func(context.Context) error { return nil })
}

// measureAsleep compares the memory of the process with so many runs asleep to
// its memory after runs that have slept and ended, when its caches are full and
// as many runs as may be at once have been in memory.
func measureAsleep(ctx context.Context, cfg *Config, out section) error {
	const stay = time.Second
	s, err := cfg.serve(ctx, func(c *stet.Config) { c.ParkFor = stay }, sleepUntilWoken)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		start := func(runs int, d time.Duration) error {
			return inParallel(ctx, runs, cfg.Concurrency, func(ctx context.Context, _ int) error {
				_, err := sleepUntilWoken.Start(ctx, s.Engine, d)
				return err
			})
		}
		warmUp := min(2*cfg.Runs, maxWarmUp)
		if err := start(warmUp, shortSleep); err != nil {
			return err
		}
		if err := s.reached(ctx, sleepUntilWoken.Name(), store.Succeeded, warmUp); err != nil {
			return err
		}
		before, err := settledMemory(ctx, stay)
		if err != nil {
			return err
		}
		begun := time.Now()
		if err := start(cfg.Runs, longSleep); err != nil {
			return err
		}
		started := time.Since(begun)
		if err := s.reached(ctx, sleepUntilWoken.Name(), store.Suspended, cfg.Runs); err != nil {
			return err
		}
		asleep := time.Since(begun)
		after, err := settledMemory(ctx, stay)
		if err != nil {
			return err
		}
		calls := s.db.calls.Load()
		if err := pause(ctx, idleTime); err != nil {
			return err
		}
		idle := float64(s.db.calls.Load()-calls) / idleTime.Seconds()

		runs := float64(cfg.Runs)
		out.figure("started", runs/started.Seconds(), "runs/s")
		out.figure("started and asleep", runs/asleep.Seconds(), "runs/s")
		perRun := float64(after.heap-before.heap) / runs
		out.figure("heap per run", perRun, "B")
		if after.resident > 0 {
			perRun = float64(after.resident-before.resident) / runs
			out.figure("resident memory per run", perRun, "B")
			out.figure("resident memory", float64(after.resident)/(1<<20), "MiB")
		}
		out.figure("store calls when idle", idle, "calls/s")
		out.atMost("memory per run", perRun, 100, "B")
		out.atMost("store calls when idle", idle, 2, "calls/s")
		return nil
	})
}

// memory is the memory that the process uses, in bytes.
type memory struct {
	heap     int64 // live after a collection
	resident int64 // 0: not known on this system
}

func readMemory() memory {
	runtime.GC()
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return memory{int64(stats.HeapAlloc), residentMemory()}
}

// settledMemory waits until suspended runs, which stay in memory for a while, are gone: until no more than 0.5 % of the
// heap becomes free within that while, at most ten times.
func settledMemory(ctx context.Context, stay time.Duration) (memory, error) {
	last := readMemory()
	for range 10 {
		if err := pause(ctx, stay+stay/2); err != nil {
			return last, err
		}
		now := readMemory()
		settled := last.heap-now.heap < now.heap/200
		last = now
		if settled {
			break
		}
	}
	return last, nil
}
