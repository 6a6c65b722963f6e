package sim_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
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

// TestSeeds executes worlds. A seed that breaks a promise is looked at by
// go run ./internal/sim/run --seed N --trace.
func TestSeeds(t *testing.T) {
	p := program(t)
	seeds := make(chan uint64)
	go func() {
		for seed := range worlds(t) {
			seeds <- uint64(seed + 1)
		}
		close(seeds)
	}()
	var working sync.WaitGroup
	var mu sync.Mutex
	reached := map[string]int{}
	for range runtime.GOMAXPROCS(0) {
		working.Go(func() {
			for seed := range seeds {
				r, err := sim.Run(p, plan.Generate(seed), nil)
				mu.Lock()
				for situation, n := range r.Reached {
					reached[situation] += n
				}
				mu.Unlock()
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				for _, v := range r.Violations {
					t.Errorf("seed %d: %s", seed, v)
				}
			}
		})
	}
	working.Wait()
	if missing := sim.Unreached(reached); worlds(t) >= sim.Soaks && len(missing) > 0 {
		t.Errorf("expected that %d worlds reach these as well: %q", worlds(t), missing)
	}
}

var compiledWithFile = sync.OnceValues(func() (*box.Program, error) {
	return sim.CompileWithFile(context.Background(), "")
})

// TestSQLite executes worlds in which the store is a file of SQLite, whose power is cut and whose
// disk is full. A seed that breaks a promise is looked at by
// go run ./internal/sim/run --seed N --sqlite --trace.
func TestSQLite(t *testing.T) {
	p, err := compiledWithFile()
	if err != nil {
		t.Fatal(err)
	}
	reached, n := map[string]int{}, max(1, worlds(t)/50)
	for seed := range uint64(n) {
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

// worlds is how many worlds make test, make check and make soak execute.
func worlds(t *testing.T) int {
	switch {
	case soak.On():
		return 2_000 * soak.Times(t)
	case soak.Usual(t):
		return 1_000
	case testing.Short():
		return 20
	}
	return 200
}

// TestASeedIsAWorld: the same seed gives the same trace, byte by byte, whatever else executes,
// and another seed another one.
func TestASeedIsAWorld(t *testing.T) {
	p := program(t)
	const seeds = 6
	var traces [2][seeds]string
	var working sync.WaitGroup
	for i := range traces {
		for seed := range seeds {
			working.Go(func() {
				h := sha256.New()
				_, err := sim.Run(p, plan.Generate(uint64(seed+1)), func(line string) { _, _ = io.WriteString(h, line+"\n") })
				if err != nil {
					t.Error(err)
				}
				traces[i][seed] = fmt.Sprintf("%x", h.Sum(nil))
			})
		}
	}
	working.Wait()
	if traces[0] != traces[1] {
		t.Errorf("expected the same traces, found\n%q\n%q", traces[0], traces[1])
	}
	for i, trace := range traces[0][1:] {
		if trace == traces[0][i] {
			t.Errorf("seeds %d and %d give the same trace", i+1, i+2)
		}
	}
}
