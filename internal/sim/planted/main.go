// Command planted shows that the simulation finds defects. It compiles the machines once with all
// defects of the table in them, executes worlds with each until one breaks a promise, and
// prints which seed that was and what was said:
//
//	go run ./internal/sim/planted
//	go run ./internal/sim/planted --only epoch,answer --seeds 1-2000
//
// A seed that breaks a promise without the defect finds nothing, nor does one whose world does not end on this
// machine. The exit code is 1 if a defect
// was not found of which the table does not say that a test holds it, and 2 if worlds could not be executed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/sim"
	"github.com/stet-run/stet/internal/sim/box"
	"github.com/stet-run/stet/internal/sim/plan"
)

var errUnseen = errors.New("defects were not found")

func main() {
	last := flag.Uint64("seeds", 2_000, "how many worlds are executed at most with a defect")
	only := flag.String("only", "", "names of defects, with commas between them; empty: all")
	flag.DurationVar(&patience, "patience", patience, "how long a world may take on this machine; one that takes longer "+
		"finds nothing")
	flag.Parse()
	err := find(context.Background(), *last, *only)
	switch {
	case errors.Is(err, errUnseen):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func find(ctx context.Context, last uint64, only string) error {
	p, err := compile(ctx, table)
	if err != nil {
		return err
	}
	defer p.Close()
	names := strings.Split(only, ",")
	var unseen []string
	for _, d := range table {
		if only != "" && !slices.Contains(names, d.name) {
			continue
		}
		begun := time.Now()
		f := search(p, d.name, last)
		took := time.Since(begun).Round(time.Second)
		fmt.Printf("%-24s breaks %-10s %s\n", d.name, d.breaks, d.why)
		switch {
		case f.seed > 0:
			fmt.Printf("%24s seed %d, after %d worlds, %s: %s\n", "", f.seed, f.worlds, took, f.said)
		case d.held != "" && !f.endless:
			fmt.Printf("%24s not found in %d worlds, %s; it is held by %s\n", "", f.worlds, took, d.held)
		case f.endless:
			fmt.Printf("%24s NOT FOUND in %d worlds, %s; some have not ended in %s on this machine\n",
				"", f.worlds, took, patience)
			unseen = append(unseen, d.name)
		default:
			fmt.Printf("%24s NOT FOUND in %d worlds, %s\n", "", f.worlds, took)
			unseen = append(unseen, d.name)
		}
	}
	if len(unseen) > 0 {
		return fmt.Errorf("%w: %s", errUnseen, strings.Join(unseen, ", "))
	}
	return nil
}

// found is what became of the search for a defect.
type found struct {
	seed    uint64 // the smallest; 0: none
	said    string
	worlds  int  // that were executed with it
	endless bool // one of them has not ended
}

// search executes worlds with a defect, several at a time and in the order of their seeds, until
// one of them breaks a promise that it keeps without.
func search(p *box.Program, name string, last uint64) (f found) {
	planted := p.WithEnv(chosen, name)
	defer func() {
		if !f.endless { // otherwise a world still executes it
			_ = planted.Close() // it is in memory
		}
	}()
	var mu sync.Mutex
	next := uint64(0)
	take := func() (seed uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if f.seed > 0 || next == last {
			return 0, false
		}
		next++
		return next, true
	}
	var working sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		working.Go(func() {
			for seed, ok := take(); ok; seed, ok = take() {
				said, endless := broken(planted, seed)
				if said != "" {
					if without, _ := broken(p, seed); without != "" {
						said = ""
					}
				}
				mu.Lock()
				f.worlds++
				f.endless = f.endless || endless
				if said != "" && (f.seed == 0 || seed < f.seed) {
					f.seed, f.said = seed, said
				}
				mu.Unlock()
			}
		})
	}
	working.Wait()
	return f
}

// patience is how long a world may take on this machine. A defect can let a machine compute for
// ever, which the world cannot end.
var patience = 3 * time.Minute

// broken executes a world and returns the first promise that it breaks, or "", and whether it does
// not end.
func broken(p *box.Program, seed uint64) (said string, endless bool) {
	ended := make(chan string, 1)
	go func() {
		r, err := sim.Run(p, plan.Generate(seed), nil)
		switch {
		case err != nil:
			ended <- err.Error()
		case len(r.Violations) > 0:
			ended <- r.Violations[0]
		default:
			ended <- ""
		}
	}()
	select {
	case said := <-ended:
		return said, false
	case <-time.After(patience):
		return "", true
	}
}
