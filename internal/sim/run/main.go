// Command run executes simulated worlds, several at a time:
//
//	go run ./internal/sim/run --seeds 1-500
//	go run ./internal/sim/run --seed 17 --trace
//	go run ./internal/sim/run --plan internal/sim/testdata/takeover.json
//	go run ./internal/sim/run --seeds 1-50 --sqlite
//
// An interrupt lets it end after the worlds under way, and print what they have shown.
//
// It prints each promise that was broken, and how often each rare situation was reached. Of the first seed
// that broke one it looks for a smaller world that breaks it too, and prints that one: as a plan, and what
// happens in it in words. The exit code is 1 if a promise was broken, or 2,000 worlds and more have not reached
// one of the situations that they must reach, and 2 if the worlds could not be executed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/sim"
	"github.com/stet-run/stet/internal/sim/box"
	"github.com/stet-run/stet/internal/sim/plan"
)

var errBroken = errors.New("promises were broken")

func main() {
	seeds := flag.String("seeds", "1-200", "a range of seeds")
	one := flag.Uint64("seed", 0, "this seed alone")
	trace := flag.Bool("trace", false, "print every act of the world")
	shrink := flag.Bool("shrink", true, "look for a smaller world that breaks a promise, and print what happens in it")
	stored := flag.String("plan", "", "a file with the plan of a world, in place of seeds")
	overlay := flag.String("overlay", "", "a file for the flag of that name of go build: the engine with a defect")
	file := flag.Bool("sqlite", false, "the store is a file of SQLite, whose power is cut")
	flag.Parse()
	if *one != 0 {
		*seeds = fmt.Sprint(*one)
	}
	err := run(options{*seeds, *stored, *overlay, *trace, *shrink, *file})
	switch {
	case errors.Is(err, errBroken):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// slow is how long a world takes at most that nobody wonders about.
const slow = 20 * time.Second

type options struct {
	seeds, plan, overlay string
	trace, shrink, file  bool
}

func run(o options) error {
	first, last, err := rangeOf(o.seeds)
	if err != nil {
		return err
	}
	compile, planned := sim.Compile, plan.Generate
	if o.file {
		planned = func(seed uint64) plan.Plan { return plan.OnDisk(plan.Generate(seed)) }
	}
	if o.plan != "" {
		of, err := sim.ReadPlan(o.plan)
		if err != nil {
			return err
		}
		planned, first, last, o.file = func(uint64) plan.Plan { return of }, of.Seed, of.Seed, of.Disk
	}
	if o.file {
		compile = sim.CompileWithFile
	}
	p, err := compile(context.Background(), o.overlay)
	if err != nil {
		return err
	}
	var log func(string)
	if o.trace {
		log = func(line string) { fmt.Println(line) }
	}
	next := make(chan uint64)
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	go func() {
		defer close(next)
		for s := first; s <= last; s++ {
			select {
			case next <- s:
			case <-interrupted.Done():
				return
			}
		}
	}()
	begun := time.Now()
	var mu sync.Mutex
	reached, broken, worlds := map[string]int{}, []uint64{}, 0
	var lasted time.Duration
	var working sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), int(last-first+1)) {
		working.Go(func() {
			for seed := range next {
				late := time.AfterFunc(slow, func() { fmt.Printf("seed %d takes longer than %s\n", seed, slow) })
				r, err := sim.Run(p, planned(seed), log)
				late.Stop()
				mu.Lock()
				worlds++
				for situation, n := range r.Reached {
					reached[situation] += n
				}
				lasted += r.Lasted
				if bad := append(r.Violations, texts(err)...); len(bad) > 0 {
					broken = append(broken, seed)
					fmt.Printf("seed %d:\n\t%s\n", seed, strings.Join(bad, "\n\t"))
				}
				mu.Unlock()
			}
		})
	}
	working.Wait()
	for _, situation := range slices.Sorted(maps.Keys(reached)) {
		fmt.Printf("%8d  %s\n", reached[situation], situation)
	}
	fmt.Printf("%d worlds, %s in them, took %s; %d broke a promise\n", worlds, lasted.Round(time.Second),
		time.Since(begun).Round(time.Millisecond), len(broken))
	unreached, soaks := sim.Unreached, sim.Soaks
	if o.file {
		unreached, soaks = sim.UnreachedOnDisk, sim.SoaksOnDisk
	}
	if missing := unreached(reached); worlds >= soaks && len(missing) > 0 {
		fmt.Printf("never reached: %s\n", strings.Join(missing, "; "))
		return errBroken
	}
	if len(broken) == 0 {
		return nil
	}
	if o.shrink {
		return errors.Join(errBroken, shrunk(p, planned(slices.Min(broken))))
	}
	return errBroken
}

func texts(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

// rangeOf reads "7" or "1-200".
func rangeOf(seeds string) (first, last uint64, err error) {
	from, to, ok := strings.Cut(seeds, "-")
	if !ok {
		to = from
	}
	first, err1 := strconv.ParseUint(from, 10, 64)
	last, err2 := strconv.ParseUint(to, 10, 64)
	if err1 != nil || err2 != nil || first > last {
		return 0, 0, fmt.Errorf("expected seeds like 7 or 1-200, found %q", seeds)
	}
	return first, last, nil
}

// tries is how many worlds are executed to find a smaller one.
const tries = 200

// shrunk prints a smaller world that breaks a promise.
func shrunk(p *box.Program, of plan.Plan) error {
	fmt.Printf("looking for a world that is smaller than that of seed %d …\n", of.Seed)
	small := sim.Shrink(p, of, tries)
	text, err := json.MarshalIndent(small, "", "  ")
	if err != nil {
		return err
	}
	fmt.Printf("the plan, for --plan FILE:\n%s\n", text)
	r, err := sim.Tell(p, small, func(line string) { fmt.Println(line) })
	fmt.Printf("seed %d, made smaller:\n\t%s\n", of.Seed, strings.Join(append(r.Violations, texts(err)...), "\n\t"))
	return nil
}
