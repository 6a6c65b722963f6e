package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

// TestMain is also the main function of the processes that tests kill.
func TestMain(m *testing.M) {
	path := os.Getenv("STET_E2E_VICTIM")
	if path == "" {
		os.Exit(m.Run())
	}
	if err := victim(path); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// manyBodies is how many bodies are in flight when a process is killed.
const manyBodies = 1000

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

// victim executes what is in a file until it is killed, by itself after the length of life that
// its environment says, or until a line comes: the signal for all bodies. Then it goes on until
// its input ends.
func victim(path string) error {
	if text := os.Getenv("STET_E2E_LIFE"); text != "" {
		life, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		time.AfterFunc(life, func() { _ = self.Kill() })
	}
	s, err := sqlite.Open(context.Background(), path)
	if err != nil {
		return err
	}
	signal := make(chan struct{})
	e, err := stet.New(context.Background(), stet.Config{Store: s, Workflows: []stet.Definition{held(signal)},
		MaxSteps: manyBodies, MaxRuns: 2 * manyBodies, AloneFor: time.Second, Poll: 50 * time.Millisecond,
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

func startVictim(t *testing.T, path string, environment ...string) *killable {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "STET_E2E_VICTIM="+path), environment...)
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
	k := &killable{cmd, in, make(chan string, 100*manyBodies)}
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

// TestManyBodiesInFlightOfKilledProcesses: all are executed again after two kills, and after a
// crash loop at regular intervals, whose cause is none of them. No run is stalled for it. The pauses
// before a suspect is tried alone are 0.25 s, 0.5 s and 2 s here.
func TestManyBodiesInFlightOfKilledProcesses(t *testing.T) {
	for _, c := range []struct {
		name  string
		kills int           // of a process that executes all bodies
		loop  int           // of the next ones
		life  time.Duration // of each of these
	}{
		{"two kills", 2, 0, 0}, {"a loop of short lives", 1, 8, 350 * time.Millisecond},
		{"a loop of longer lives", 1, 6, 1100 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			path := filepath.Join(t.TempDir(), "stet.db")
			s, err := sqlite.Open(ctx, path)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			w := held(nil)
			outside := client(t, s, w)
			runs, err := w.StartAll(ctx, outside, make([]string, manyBodies), nil)
			if err != nil {
				t.Fatal(err)
			}
			for range c.kills {
				p := startVictim(t, path)
				p.executes(ctx, t, manyBodies)
				p.kill()
			}
			for range c.loop {
				p := startVictim(t, path, "STET_E2E_LIFE="+c.life.String())
				for range p.begins { // until it is dead
				}
				p.kill()
			}
			last := startVictim(t, path)
			last.executes(ctx, t, manyBodies)
			if _, err := fmt.Fprintln(last.in, "go"); err != nil {
				t.Fatal(err)
			}
			for _, r := range runs {
				if got, err := r.Wait(ctx); err != nil || got != "done" {
					t.Fatalf("run %s: %q, %v", r.ID(), got, err)
				}
			}
			tallies, err := s.Count(ctx, store.Filter{})
			if err != nil || len(tallies) != 1 || tallies[0].Runs != manyBodies || tallies[0].Status != store.Succeeded {
				t.Errorf("counted %+v, %v", tallies, err)
			}
			if err := errors.Join(last.in.Close(), last.cmd.Wait()); err != nil {
				t.Errorf("the last process: %v", err)
			}
		})
	}
}
