package enginetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// The environment of a process that InFlight starts.
const (
	envAddress  = "STET_IN_FLIGHT"
	envBodies   = "STET_IN_FLIGHT_BODIES"
	envLife     = "STET_IN_FLIGHT_LIFE"
	envAloneFor = "STET_IN_FLIGHT_ALONE_FOR"
)

// InFlight is a test that kills processes while many bodies execute: those of the operating
// system, which are the test's own program, see [Main]. All bodies are executed again, and no
// run is stalled.
type InFlight struct {
	// Address is what Main gives to the function that opens the store.
	Address string
	// Store is a handle of the test on the store, which is empty.
	Store store.Store
	// Bodies is how many are in flight when a process is killed.
	Bodies int
	// Kills is how many processes are killed while they execute all bodies.
	Kills int
	// Loop is how many processes follow that are killed when they are Life old.
	Loop int
	Life time.Duration
	// AloneFor is the same of stet.Config. Default: its default.
	AloneFor time.Duration
	// Again is how long the last process may take until all bodies are executed again.
	// Default: 30 s.
	Again time.Duration
}

// Killed kills processes of a store, each time on a new one that open opens, with its address as for
// [Main]. It is for stores that all nodes share. After two kills of processes with 1,000 bodies in flight all
// execute again soon, and no run is stalled; the same after a crash loop, whose cause is none of the runs; and of
// the bodies of a killed process no more than were under way at a time are repeated.
func Killed(t *testing.T, open func(t *testing.T) (address string, s store.Store)) {
	t.Run("ManyBodiesInFlight", func(t *testing.T) {
		t.Parallel()
		address, s := open(t)
		f := InFlight{Address: address, Store: s, Bodies: 1000, Kills: 2}
		f.Test(t)
	})
	t.Run("Loop", func(t *testing.T) {
		t.Parallel()
		address, s := open(t)
		f := InFlight{Address: address, Store: s, Bodies: 200, Kills: 1, Loop: 6, Life: 1100 * time.Millisecond,
			AloneFor: time.Second, Again: time.Minute}
		f.Test(t)
	})
	t.Run("Repeats", func(t *testing.T) {
		t.Parallel()
		address, s := open(t)
		f := InFlight{Address: address, Store: s, Bodies: 4}
		f.Repeats(t)
	})
}

// Main is to be called by the TestMain of a package that uses [InFlight]. In a process that
// InFlight has started it executes bodies on the store that open opens, and does not return. In
// others it does nothing.
func Main(open func(ctx context.Context, address string) (store.Store, error)) {
	address := os.Getenv(envAddress)
	if address == "" {
		return
	}
	if err := victim(address, open); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// held is a workflow whose body prints that it begins, and waits for the signal.
func held(signal <-chan struct{}) *stet.Workflow[string, string] {
	return stet.Define("held", func(ctx stet.Context, _ string) (string, error) {
		return stet.Step(ctx, "body", func(body context.Context) (string, error) {
			fmt.Println("begins", stet.RunID(ctx))
			select {
			case <-signal:
				return "done", nil
			case <-body.Done():
				return "", body.Err()
			}
		})
	})
}

// brief is a workflow whose body prints that it begins, and has nothing to wait for.
var brief = stet.Define("brief", func(ctx stet.Context, _ string) (string, error) {
	return stet.Step(ctx, "body", func(context.Context) (string, error) {
		_, err := fmt.Println("begins", stet.RunID(ctx))
		return "done", err
	})
})

// maxSteps is the MaxSteps of a process that is to have so many bodies in flight: all are of one workflow, which gets
// only a part of them.
func maxSteps(bodies int) int { return 2 * bodies }

// victim executes what is in a store until it is killed, by itself after the length of life that
// its environment says, or until a line comes: the signal for all bodies. Then it goes on until
// its input ends.
func victim(address string, open func(context.Context, string) (store.Store, error)) error {
	length := func(name string) (time.Duration, error) {
		if os.Getenv(name) == "" {
			return 0, nil
		}
		return time.ParseDuration(os.Getenv(name))
	}
	life, err := length(envLife)
	if err != nil {
		return err
	}
	aloneFor, err := length(envAloneFor)
	if err != nil {
		return err
	}
	bodies, err := strconv.Atoi(os.Getenv(envBodies))
	if err != nil {
		return err
	}
	if life > 0 {
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		time.AfterFunc(life, func() { _ = self.Kill() })
	}
	s, err := open(context.Background(), address)
	if err != nil {
		return err
	}
	signal := make(chan struct{})
	e, err := stet.New(context.Background(), stet.Config{Store: s, Workflows: []stet.Definition{held(signal), brief},
		MaxSteps: maxSteps(bodies), MaxRuns: 2 * bodies, AloneFor: aloneFor, Poll: 50 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		in := bufio.NewReader(os.Stdin)
		if _, err := in.ReadString('\n'); err == nil {
			close(signal)
		}
		_, _ = io.Copy(io.Discard, in) // until the parent closes it
		stop()
	}()
	return errors.Join(e.Run(ctx), s.Close())
}

// killable is a process that a test kills.
type killable struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	begins chan string // runs whose body begins
}

func (f *InFlight) start(t *testing.T, life time.Duration) *killable {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envAddress+"="+f.Address, envBodies+"="+strconv.Itoa(f.Bodies),
		envAloneFor+"="+f.AloneFor.String())
	if life > 0 {
		cmd.Env = append(cmd.Env, envLife+"="+life.String())
	}
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	k := &killable{cmd, in, make(chan string, 100*f.Bodies)}
	go func() {
		defer close(k.begins)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if run, ok := strings.CutPrefix(lines.Text(), "begins "); ok {
				k.begins <- run
			}
		}
	}()
	t.Cleanup(k.kill)
	return k
}

// kill kills the process and waits for its end.
func (k *killable) kill() {
	_ = k.cmd.Process.Kill() // it may have ended
	_ = k.cmd.Wait()         // with the signal's error
}

// executes waits until bodies of n runs have begun.
func (k *killable) executes(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	runs := map[string]bool{}
	for len(runs) < n {
		select {
		case run, ok := <-k.begins:
			if !ok {
				t.Fatalf("the process has ended; the bodies of %d runs had begun", len(runs))
			}
			runs[run] = true
		case <-ctx.Done():
			t.Fatalf("the bodies of %d of %d runs execute", len(runs), n)
		}
	}
}

// Test kills the processes.
func (f *InFlight) Test(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	w := held(nil)
	outside, err := stet.New(ctx, stet.Config{Store: f.Store, Workflows: []stet.Definition{w},
		Logger: slog.New(slog.DiscardHandler), Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := w.StartAll(ctx, outside, make([]string, f.Bodies), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range f.Kills {
		p := f.start(t, 0)
		p.executes(ctx, t, f.Bodies)
		p.kill()
	}
	for range f.Loop {
		p := f.start(t, f.Life)
		for range p.begins { // until it is dead
		}
		p.kill()
	}
	limit := f.Again
	if limit == 0 {
		limit = 30 * time.Second
	}
	soon, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begun := time.Now()
	last := f.start(t, 0)
	last.executes(soon, t, f.Bodies)
	t.Logf("all %d bodies are executed again after %s", f.Bodies, time.Since(begun).Round(10*time.Millisecond))
	if _, err := fmt.Fprintln(last.in, "go"); err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		got, err := r.Wait(ctx)
		for errors.Is(err, store.ErrUnavailable) && ctx.Err() == nil { // a busy server
			got, err = r.Wait(ctx)
		}
		if err != nil || got != "done" {
			t.Fatalf("run %s: %q, %v", r.ID(), got, err)
		}
	}
	tallies, err := f.Store.Count(ctx, store.Filter{Workflows: []string{"held"}})
	if err != nil || len(tallies) != 1 || tallies[0].Runs != int64(f.Bodies) || tallies[0].Status != store.Succeeded {
		t.Errorf("counted %+v, %v", tallies, err)
	}
	if err := errors.Join(last.in.Close(), last.cmd.Wait()); err != nil {
		t.Errorf("the last process: %v", err)
	}
}

// Repeats kills a process in the midst of runs that have one body each. Another process executes all
// that are left, and of the others at most as many again as the first had room for at a time.
func (f *InFlight) Repeats(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	outside, err := stet.New(ctx, stet.Config{Store: f.Store, Workflows: []stet.Definition{brief},
		Logger: slog.New(slog.DiscardHandler), Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := brief.StartAll(ctx, outside, make([]string, 50*f.Bodies), nil)
	if err != nil {
		t.Fatal(err)
	}
	begun := map[string]int{}
	first := f.start(t, 0)
	for len(begun) < len(runs)/2 {
		select {
		case run, ok := <-first.begins:
			if !ok {
				t.Fatalf("the process has ended; %d bodies had begun", len(begun))
			}
			begun[run]++
		case <-ctx.Done():
			t.Fatalf("%d of %d bodies have begun", len(begun), len(runs))
		}
	}
	first.kill()
	for run := range first.begins {
		begun[run]++
	}
	before := len(begun)
	last := f.start(t, 0)
	for _, r := range runs {
		if got, err := r.Wait(ctx); err != nil || got != "done" {
			t.Fatalf("run %s: %q, %v", r.ID(), got, err)
		}
	}
	if err := errors.Join(last.in.Close(), last.cmd.Wait()); err != nil {
		t.Errorf("the last process: %v", err)
	}
	for run := range last.begins {
		begun[run]++
	}
	again := 0
	for _, n := range begun {
		again += n - 1
	}
	t.Logf("%d of %d bodies had begun when the process was killed; %d were executed again", before, len(runs), again)
	if limit := maxSteps(f.Bodies); again > limit || len(begun) != len(runs) {
		t.Errorf("of %d bodies %d were executed again; at most %d were under way", len(begun), again, limit)
	}
}
