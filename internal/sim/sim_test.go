package sim_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stet-run/stet/internal/sim"
	"github.com/stet-run/stet/internal/sim/box"
	"github.com/stet-run/stet/internal/sim/plan"
	"github.com/stet-run/stet/internal/testing/soak"
)

var compiled = sync.OnceValues(func() (*box.Program, error) { return sim.Compile(context.Background(), "") })

func program(t *testing.T) *box.Program {
	t.Helper()
	p, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// again is how many of the seeds are executed twice.
const again = 6

// TestSeeds executes worlds. A seed that breaks a promise is looked at by
// go run ./internal/sim/run --seed N --trace.
//
// The same seed gives the same trace, byte by byte, whatever else executes, and another seed another one: the first
// seeds are executed at the beginning and at the end.
func TestSeeds(t *testing.T) {
	p := program(t)
	from, n := worlds(t)
	type world struct {
		seed  uint64
		trace *string // becomes the sum of its lines; nil: nobody asks for it
	}
	var traces [2][again]string
	todo := make(chan world)
	go func() {
		defer close(todo)
		for i := range traces[0] {
			todo <- world{uint64(from + i + 1), &traces[0][i]}
		}
		for seed := again + 1; seed <= n; seed++ {
			todo <- world{seed: uint64(from + seed)}
		}
		for i := range traces[1] {
			todo <- world{uint64(from + i + 1), &traces[1][i]}
		}
	}()
	var working sync.WaitGroup
	var mu sync.Mutex
	reached := map[string]int{}
	for range runtime.GOMAXPROCS(0) {
		working.Go(func() {
			for w := range todo {
				var log func(string)
				h := sha256.New()
				if w.trace != nil {
					log = func(line string) { _, _ = io.WriteString(h, line+"\n") }
				}
				r, err := sim.Run(p, plan.Generate(w.seed), log)
				if w.trace != nil {
					*w.trace = fmt.Sprintf("%x", h.Sum(nil))
				}
				mu.Lock()
				for situation, n := range r.Reached {
					reached[situation] += n
				}
				mu.Unlock()
				if err != nil {
					t.Errorf("seed %d: %v", w.seed, err)
				}
				for _, v := range r.Violations {
					t.Errorf("seed %d: %s", w.seed, v)
				}
			}
		})
	}
	working.Wait()
	if missing := sim.Unreached(reached); n >= sim.Soaks && len(missing) > 0 {
		t.Errorf("expected that %d worlds reach these as well: %q", n, missing)
	}
	if traces[0] != traces[1] {
		t.Errorf("expected the same traces of the same seeds, found\n%q\n%q", traces[0], traces[1])
	}
	different := slices.Clone(traces[0][:])
	slices.Sort(different)
	if len(slices.Compact(different)) < again {
		t.Errorf("expected another trace of each seed, found %q", traces[0])
	}
}

var compiledWithFile = sync.OnceValues(func() (*box.Program, error) {
	return sim.CompileWithFile(context.Background(), "")
})

// TestSQLite executes worlds in which the store is a file of SQLite, whose power is cut and whose
// disk is full. A seed that breaks a promise is looked at by
// go run ./internal/sim/run --seed N --sqlite --trace.
func TestSQLite(t *testing.T) {
	soak.Faults(t) // to compile SQLite for the machines takes a minute of processor, after each change of the code
	p, err := compiledWithFile()
	if err != nil {
		t.Fatal(err)
	}
	const size = 50 // one of SQLite in place of so many
	from, n := worlds(t)
	from, n = from/size, max(1, n/size)
	reached := map[string]int{}
	for seed := uint64(from); seed < uint64(from+n); seed++ {
		r, err := sim.Run(p, plan.OnDisk(plan.Generate(seed+1)), nil)
		for situation, n := range r.Reached {
			reached[situation] += n
		}
		if err != nil {
			t.Errorf("seed %d: %v", seed+1, err)
		}
		for _, v := range r.Violations {
			t.Errorf("seed %d: %s", seed+1, v)
		}
	}
	if missing := sim.UnreachedOnDisk(reached); n >= sim.SoaksOnDisk && len(missing) > 0 {
		t.Errorf("expected that %d worlds reach these as well: %q", n, missing)
	}
}

// TestADiskThatLiesIsSeen: a world notices what a power cut takes away that was acknowledged.
func TestADiskThatLiesIsSeen(t *testing.T) {
	soak.Faults(t)
	if testing.Short() {
		t.Skip("one world of SQLite is enough in a short test")
	}
	p, err := compiledWithFile()
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		of := plan.OnDisk(plan.Generate(seed + 1))
		of.Faults = append([]plan.Fault{{Kind: plan.Lies}}, of.Faults...)
		r, err := sim.Run(p, of, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed+1, err)
		}
		if len(r.Violations) > 0 {
			t.Logf("seed %d: %v", seed+1, r.Violations)
			return
		}
	}
	t.Error("expected that one of 20 worlds with a disk that lies breaks a promise")
}

// worlds are those that make test, make check and make soak execute: n of them after the first ones. make check has
// a thousand, and make test a fifth of them, another one each day.
func worlds(t *testing.T) (from, n int) {
	const usual, parts = 1_000, 5
	switch {
	case soak.On():
		return 0, 2 * usual * soak.Times(t)
	case soak.Usual(t):
		return 0, usual
	case testing.Short():
		return 0, 20
	}
	part := soak.Part(t, 0, parts)
	from = usual * part / parts
	return from, usual*(part+1)/parts - from
}
