package e2e_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

// testsAtATime is how many tests run at the same time: most wait for a store or a clock, not for a processor.
const testsAtATime = "8"

// TestMain is also the main function of the processes that tests start.
func TestMain(m *testing.M) {
	enginetest.Main(func(ctx context.Context, path string) (store.Store, error) { return sqlite.Open(ctx, path) })
	if os.Getenv(envProgram) != "" {
		readmeMain()
		return
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", testsAtATime); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// inFlight are the kills of processes while many bodies execute. All bodies are executed again within 30 s of two
// kills, as an engine is by default, and after a crash loop at regular intervals, which none of them causes. No run is
// stalled. The pauses before a suspect is tried alone are 0.25 s, 0.5 s and 2 s in the loops.
var inFlight = []struct {
	name string
	enginetest.InFlight
}{
	{"two kills", enginetest.InFlight{Kills: 2}},
	{"a loop of short lives", enginetest.InFlight{Kills: 1, Loop: 8, Life: 350 * time.Millisecond,
		AloneFor: time.Second, Again: time.Minute}},
	{"a loop of longer lives", enginetest.InFlight{Kills: 1, Loop: 6, Life: 1100 * time.Millisecond,
		AloneFor: time.Second, Again: time.Minute}},
}

// TestManyBodiesInFlightOfKilledProcesses kills processes of the operating system.
func TestManyBodiesInFlightOfKilledProcesses(t *testing.T) {
	soak.Faults(t)
	for _, c := range inFlight {
		t.Run(c.name, func(t *testing.T) {
			c.Address = filepath.Join(t.TempDir(), "stet.db")
			s, err := sqlite.Open(t.Context(), c.Address)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c.Store, c.Bodies = s, 1000
			c.Test(t)
		})
	}
}

// TestManyBodiesInFlightOfDeadProcesses is TestManyBodiesInFlightOfKilledProcesses with engines whose handles on the
// store die, in virtual time.
func TestManyBodiesInFlightOfDeadProcesses(t *testing.T) {
	t.Parallel()
	const bodies = 300
	for _, s := range testStores {
		for _, c := range inFlight {
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					open, bodiesOf := s.open(t), newExecuting()
					w := stet.Define("held", func(ctx stet.Context, _ string) (string, error) {
						return stet.Step(ctx, "body", func(body context.Context) (string, error) {
							return bodiesOf.execute(body, stet.RunID(ctx))
						})
					})
					cfg := stet.Config{Workflows: []stet.Definition{w}, MaxSteps: bodies, MaxRuns: 2 * bodies,
						AloneFor: c.AloneFor, Poll: 50 * time.Millisecond}
					ctx := context.Background()
					runs, err := w.StartAll(ctx, client(t, open(), w), make([]string, bodies), nil)
					if err != nil {
						t.Fatal(err)
					}
					dies := func(p *process) {
						p.handle.die()
						p.bury(t)
						bodiesOf.forget()
					}
					for range c.Kills {
						p := startProcess(t, open(), cfg)
						bodiesOf.wait(t, bodies, testLimit)
						dies(p)
					}
					for range c.Loop {
						p := startProcess(t, open(), cfg)
						time.Sleep(c.Life)
						dies(p)
					}
					startProcess(t, open(), cfg)
					again := c.Again
					if again == 0 {
						again = 30 * time.Second
					}
					bodiesOf.wait(t, bodies, again)
					close(bodiesOf.signal)
					for _, r := range runs {
						if got, err := r.Wait(ctx); err != nil || got != "done" {
							t.Fatalf("run %s: %q, %v", r.ID(), got, err)
						}
					}
				})
			})
		}
	}
}

// executing are the bodies that execute until a signal.
type executing struct {
	signal chan struct{}

	mu   sync.Mutex
	runs map[string]bool
}

func newExecuting() *executing {
	return &executing{signal: make(chan struct{}), runs: map[string]bool{}}
}

func (x *executing) execute(body context.Context, run string) (string, error) {
	x.mu.Lock()
	x.runs[run] = true
	x.mu.Unlock()
	select {
	case <-x.signal:
		return "done", nil
	case <-body.Done():
		return "", body.Err()
	}
}

// forget begins to count again.
func (x *executing) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.runs)
}

// wait blocks until the bodies of n runs execute. It takes at most the limit of virtual time.
func (x *executing) wait(t *testing.T, n int, limit time.Duration) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		x.mu.Lock()
		have := len(x.runs)
		x.mu.Unlock()
		if have >= n {
			return
		}
		if time.Since(begun) > limit {
			t.Fatalf("after %s the bodies of %d of %d runs execute", limit, have, n)
		}
	}
}

// TestBodiesOfAKilledProcessThatAreRepeated kills a process of the operating system: at most as many bodies as were
// under way at a time, MaxSteps, are repeated.
func TestBodiesOfAKilledProcessThatAreRepeated(t *testing.T) {
	soak.Faults(t)
	path := filepath.Join(t.TempDir(), "stet.db")
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := enginetest.InFlight{Address: path, Store: s, Bodies: 4}
	f.Repeats(t)
}

// TestBodiesOfADeadProcessThatAreRepeated is TestBodiesOfAKilledProcessThatAreRepeated with engines: the handle of the
// first one on the store dies when half of the bodies have begun.
func TestBodiesOfADeadProcessThatAreRepeated(t *testing.T) {
	t.Parallel()
	const atATime = 4
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				open := s.open(t)
				var mu sync.Mutex
				begun, half := map[string]int{}, make(chan struct{})
				w := stet.Define("brief", func(ctx stet.Context, _ string) (string, error) {
					return stet.Step(ctx, "body", func(context.Context) (string, error) {
						mu.Lock()
						defer mu.Unlock()
						begun[stet.RunID(ctx)]++
						if len(begun) == 25*atATime && begun[stet.RunID(ctx)] == 1 {
							close(half)
						}
						return "done", nil
					})
				})
				ctx := testContext(t)
				runs, err := w.StartAll(ctx, client(t, open(), w), make([]string, 50*atATime), nil)
				if err != nil {
					t.Fatal(err)
				}
				cfg := stet.Config{Workflows: []stet.Definition{w}, MaxSteps: atATime, Poll: 50 * time.Millisecond,
					LeaseTTL: time.Second}
				first := startProcess(t, open(), cfg)
				<-half
				first.handle.die()
				first.bury(t)
				startProcess(t, open(), cfg)
				for _, r := range runs {
					if got, err := r.Wait(ctx); err != nil || got != "done" {
						t.Fatalf("run %s: %q, %v", r.ID(), got, err)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				again := 0
				for _, n := range begun {
					again += n - 1
				}
				if again > atATime || len(begun) != len(runs) {
					t.Errorf("of %d bodies %d were executed, %d again; at most %d were under way", len(runs), len(begun),
						again, atATime)
				}
			})
		})
	}
}
