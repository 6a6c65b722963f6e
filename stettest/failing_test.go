package stettest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store/memory"
)

// failing are tests that must fail, with texts that they must print. Each is executed by
// a process of its own.
var failing = map[string]struct {
	test func(t *testing.T)
	says []string
}{
	"a run that waits for ever": {func(t *testing.T) {
		w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) { return word.Receive(ctx) })
		stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
			if _, err := start(t, env, w, 0, stet.ID("forgotten")).Wait(t.Context()); err == nil {
				t.Error("the run has ended")
			}
		})
	}, []string{"876000h0m0s of virtual time have passed", "forgotten: suspended, waits for receive word word"}},
	"a test that ends itself": {func(t *testing.T) {
		w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
			stet.Go(ctx, "beside", func(ctx stet.Context) (int, error) { return 0, stet.Sleep(ctx, "year", year) })
			return "", stet.Do(ctx, "s", func(ctx context.Context) error { <-ctx.Done(); return nil })
		})
		stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
			start(t, env, w, 0)
			env.At(year, func(context.Context) error { panic("too late") })
			time.Sleep(time.Hour)
			t.Fatal("that is enough")
		})
	}, []string{"that is enough"}},
	"a body that ignores its context, in a process that dies": {func(t *testing.T) {
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
			slow := stet.Go(ctx, "slow", func(ctx stet.Context) (int, error) {
				return 0, stet.Do(ctx, "s", func(context.Context) error { time.Sleep(time.Hour); return nil })
			})
			if err := stet.Do(ctx, "quick", func(context.Context) error { time.Sleep(time.Second); return nil }); err != nil {
				return 0, err
			}
			return slow.Await(ctx)
		})
		stettest.CrashEverywhere(t, w, 0)
	}, []string{"the process that has died: stopped, but 1 have not returned: run crash step slow/s"}},
	"an act that fails": {func(t *testing.T) {
		stettest.Run(t, with(), func(t *testing.T, env *stettest.Env) {
			env.At(day, func(context.Context) error { return fmt.Errorf("no luck") })
			time.Sleep(2 * day)
		})
	}, []string{"at 24h0m0s: no luck"}},
	"a config with a store": {func(t *testing.T) {
		stettest.Run(t, stet.Config{Store: memory.New()}, func(*testing.T, *stettest.Env) {})
	}, []string{"expected a Config without a Store"}},
	"a bad config": {func(t *testing.T) {
		stettest.Run(t, stet.Config{MaxRuns: -5}, func(*testing.T, *stettest.Env) {})
	}, []string{"MaxRuns"}},
	"a replacement of another type": {func(t *testing.T) {
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
			return stet.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
		})
		stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
			env.Replace("s", stettest.Returns("text"))
			want(t, start(t, env, w, 0), 1)
		})
	}, []string{"result of s is no int"}},
	"a result that changes": {func(t *testing.T) {
		var n atomic.Int64
		w := stet.Define("w", func(ctx stet.Context, _ int) (int64, error) {
			return stet.Step(ctx, "s", func(context.Context) (int64, error) { return n.Add(1), nil })
		})
		stettest.CrashEverywhere(t, w, 0)
	}, []string{
		`with a replay after each suspension: the run ends succeeded with "2"; undisturbed it ends succeeded with "1"`,
		"1 step     done      s",
	}},
	"code that depends on what is not recorded": {func(t *testing.T) {
		var memory atomic.Int64
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
			for range 2 {
				name := fmt.Sprint("s", memory.Add(1)%4)
				if err := stet.Do(ctx, name, func(context.Context) error { return nil }); err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		stettest.CrashEverywhere(t, w, 0)
	}, []string{"where the process dies before commit 2: the run ends stalled", "mismatch at s"}},
	"a run that stalls by itself": {func(t *testing.T) {
		w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) { return word.Receive(ctx) })
		stettest.CrashEverywhere(t, w, 0)
	}, []string{
		`without a disturbance: the run does not end: wait for run "crash": 876000h0m0s of virtual time have passed`,
		"the history",
	}},
	"driving that fails": {func(t *testing.T) {
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) { return 0, stet.Sleep(ctx, "nap", time.Hour) })
		stettest.CrashEverywhere(t, w, 0, stettest.Driving(func(ctx context.Context, e *stet.Engine, id string) error {
			return word.Send(ctx, e, "nobody", "x")
		}))
	}, []string{"without a disturbance: driving the run", "not found"}},
	"a history that does not fit": {func(t *testing.T) {
		file := exported(t, "charge")
		stettest.Replay(t, file, checkout("bill"))
	}, []string{
		"mismatch at charge", "the history has step charge (done, completion 1)", "the code asks for step bill", "run.json",
	}},
	"no file": {func(t *testing.T) {
		stettest.Replay(t, "testdata/none.json", checkout("charge"))
	}, []string{"testdata/none.json"}},
	"no history": {func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "x.json")
		if err := os.WriteFile(file, []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
		stettest.Replay(t, file, checkout("charge"))
	}, []string{"not an exported run"}},
}

const failingCase = "STETTEST_CASE"

// TestThatFails is one of the tests above, in a process of its own.
func TestThatFails(t *testing.T) {
	name := os.Getenv(failingCase)
	if name == "" {
		t.Skip("executed by TestFailures")
	}
	failing[name].test(t)
}

func TestFailures(t *testing.T) {
	for name, c := range failing {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestThatFails$")
			cmd.Env = append(os.Environ(), failingCase+"="+name)
			out, err := cmd.CombinedOutput()
			if _, failed := err.(*exec.ExitError); !failed || !bytes.Contains(out, []byte("--- FAIL: TestThatFails")) {
				t.Errorf("the test has not failed: %v", err)
			}
			for _, text := range c.says {
				if !bytes.Contains(out, []byte(text)) {
					t.Errorf("it does not say %q", text)
				}
			}
			if strings.Contains(string(out), "panic:") {
				t.Error("it has panicked")
			}
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
}

// checkout is a workflow whose step may be renamed.
func checkout(charge string) *stet.Workflow[string, string] {
	return stet.Define("checkout", func(ctx stet.Context, order string) (string, error) {
		receipt, err := stet.Step(ctx, charge, func(context.Context) (string, error) { return "receipt of " + order, nil })
		if err != nil {
			return "", err
		}
		return receipt, stet.Sleep(ctx, "cool", day)
	})
}

// exported returns a file with a run of checkout that sleeps.
func exported(t *testing.T, charge string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.json")
	w := checkout(charge)
	stettest.Run(t, with(w), func(t *testing.T, env *stettest.Env) {
		r := start(t, env, w, "tea", stet.ID("order"))
		env.Settle()
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := env.Engine.Runs().Export(t.Context(), r.ID(), f); err != nil {
			t.Fatal(err)
		}
	})
	return path
}

func TestReplay(t *testing.T) { stettest.Replay(t, exported(t, "charge"), checkout("charge")) }
