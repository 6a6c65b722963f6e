package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/stet-run/stet"
)

// maxEarly is the iteration at which a loop has all that it will ever hold.
const maxEarly = 1000

// usage is what a loop uses at one of its iterations.
type usage struct {
	memory
	file int64 // bytes of the store; 0: not known
}

// read reads the memory of the process, and the size of the store on disk.
func (cfg *Config) read() (usage, error) {
	u := usage{memory: readMemory()}
	if cfg.File == "" {
		return u, nil
	}
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(cfg.File + suffix)
		switch {
		case err == nil:
			u.file += info.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return u, err
		}
	}
	return u, nil
}

// looping is a workflow with a loop of so many iterations of one step, which calls at
// with the number of each.
func looping(iterations int, at func(int)) *stet.Workflow[payload, payload] {
	return stet.Define(prefix+"loop", func(ctx stet.Context, p payload) (payload, error) {
		return stet.Loop(ctx, "loop", payload{0, p.Text},
			func(ctx stet.Context, p payload) (next stet.Next[payload, payload], err error) {
				at(p.Number)
				p, err = stet.Step(ctx, "step", func(context.Context) (payload, error) {
					return payload{p.Number + 1, p.Text},
						nil
				})
				if err != nil || p.Number == iterations {
					return next.Break(p), err
				}
				return next.Continue(p), nil
			})
	})
}

// measureLoop compares the usage of a loop at its early iterations with that at its last one. It also compares its rate
// with that of as many steps of a run without a loop, up to 10,000.
func measureLoop(ctx context.Context, cfg *Config, r *Report) error {
	early := min(cfg.Steps/2, maxEarly)
	var mu sync.Mutex
	var problem error
	seen := map[int]usage{}
	loop := looping(cfg.Steps, func(n int) {
		if n != early && n != cfg.Steps-1 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		u, err := cfg.read()
		problem = errors.Join(problem, err)
		seen[n] = u
	})
	plain := sequence(min(cfg.Steps, 10_000))
	s, err := cfg.serve(ctx, func(c *stet.Config) { c.MaxEntries = 1 << 30 }, loop, plain)
	if err != nil {
		return err
	}
	return s.closing(ctx, func(ctx context.Context) error {
		begun := time.Now()
		if err := execute(ctx, s, plain, newPayload(0)); err != nil {
			return err
		}
		steps := float64(min(cfg.Steps, 10_000)) / time.Since(begun).Seconds()
		run, err := loop.Start(ctx, s.Engine, newPayload(0))
		if err != nil {
			return err
		}
		begun = time.Now()
		last, err := run.Wait(ctx)
		took := time.Since(begun)
		if err == nil && last.Number != cfg.Steps {
			err = fmt.Errorf("run %s: expected %d iterations, found %d", run.ID(), cfg.Steps, last.Number)
		}
		mu.Lock()
		defer mu.Unlock()
		if err = errors.Join(err, problem); err != nil {
			return err
		}
		before, after := seen[early], seen[cfg.Steps-1]
		out := r.section("loop", "%d iterations of one step", cfg.Steps)
		rate := float64(cfg.Steps) / took.Seconds()
		out.figure("iterations", rate, "iterations/s")
		out.figure("steps of one run without a loop", steps, "steps/s")
		out.figure("heap early", float64(before.heap)/1024, "KiB")
		out.figure("heap at the end", float64(after.heap)/1024, "KiB")
		out.atLeast("iterations over the steps of one run", rate/steps, 0.5, "")
		out.atMost("heap at the end over the heap early", float64(after.heap)/float64(before.heap), 1.1, "")
		if before.file > 0 {
			out.figure("store early", float64(before.file)/1024, "KiB")
			out.figure("store at the end", float64(after.file)/1024, "KiB")
		}
		return nil
	})
}
