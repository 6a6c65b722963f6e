package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// checkSpent fails the test unless what the time of a run was spent on adds up to all of it. It returns the
// parts of a second and more, in whole seconds.
func checkSpent(t testing.TB, e *stet.Engine, id string) string {
	t.Helper()
	s, err := e.Runs().Shape(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	sum, grows := time.Duration(0), 0
	var parts []string
	for _, p := range s.Spent {
		sum += p.Took
		if p.Took <= 0 || p.Text == "" || p.On == "" {
			t.Errorf("run %s: a part of its time is %+v", id, p)
		}
		if p.Grows {
			grows++
		}
		if took := p.Took.Round(time.Second); took > 0 {
			parts = append(parts, strings.TrimSpace(fmt.Sprint(p.On, " ", p.Queue))+" "+took.String())
		}
	}
	if whole := s.To.Sub(s.From); sum != whole || s.From.IsZero() {
		t.Errorf("run %s: %s of %s are explained: %+v", id, sum, whole, s.Spent)
	}
	if info, err := e.Runs().Info(t.Context(), id); err != nil || info.Ended.IsZero() && sum > 0 && grows != 1 ||
		!info.Ended.IsZero() && (grows > 0 || !s.To.Equal(info.Ended)) {
		t.Errorf("run %s: %d parts grow, up to %s: %+v, %v", id, grows, s.To, info, err)
	}
	return strings.Join(parts, ", ")
}

// TestWhatTheTimeOfARunWasSpentOn: each cause for which a run takes long has a part of its own, while it lasts and
// afterwards.
func TestWhatTheTimeOfARunWasSpentOn(t *testing.T) {
	t.Parallel()
	fails := true // steps "fix" and the code of "stalls"
	body := func(ctx context.Context) error { return takes(ctx, 3*time.Second) }
	steps := stet.Define("steps", func(ctx stet.Context, in string) (string, error) {
		switch in {
		case "permit":
			return "", stet.Do(ctx, "s", body, stet.OnStepQueue("model"))
		case "place":
			return "", stet.Do(ctx, "s", body, stet.PerNode{Name: "card", Limit: 1})
		case "retry":
			return "", stet.Do(ctx, "s", func(ctx context.Context) error {
				if err := body(ctx); err != nil || stet.Attempt(ctx) > 2 {
					return err
				}
				return errors.New("not yet")
			}, stet.Retry{First: time.Minute, Factor: 1, Jitter: stet.None})
		case "fix":
			return "", stet.Do(ctx, "s", func(context.Context) error {
				if fails {
					return stet.Permanent(errors.New("no"))
				}
				return nil
			})
		case "stalls":
			if fails {
				return "", stet.Stall("the table is old")
			}
			return "", nil
		case "task":
			n, err := doubleTask.Run(ctx, 2)
			return fmt.Sprint(n), err
		}
		return "", stet.Sleep(ctx, "z", time.Minute)
	})
	each := func(name, live, ended string, opts []stet.StartOption, do func(t *testing.T, e *stet.Engine, look func())) {
		t.Run(name, func(t *testing.T) {
			fails = true
			synctest.Test(t, func(t *testing.T) {
				e := serve(t, stet.Config{Workflows: []stet.Definition{steps}})
				createQueue(t, e, "model", stet.QueueSettings{Concurrency: 1})
				createQueue(t, e, "tasks", stet.QueueSettings{})
				r := startOn(t, e, steps, name, append(opts, stet.ID("r"))...)
				do(t, e, func() {
					t.Helper()
					if got := checkSpent(t, e, "r"); got != live {
						t.Errorf("while it lasts: %s; want %s", got, live)
					}
				})
				if _, err := r.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := checkSpent(t, e, "r"); got != ended {
					t.Errorf("afterwards: %s; want %s", got, ended)
				}
			})
		})
	}
	pass := func(t *testing.T, d time.Duration) {
		t.Helper()
		if err := takes(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
	other := func(t *testing.T, e *stet.Engine, input string) { startOn(t, e, steps, input, stet.ID("other")) }
	each("sleep", "wait 20s, paused 10s", "wait 50s, paused 10s", nil, func(t *testing.T, e *stet.Engine, look func()) {
		pass(t, 20*time.Second)
		act := func(do func(context.Context, string, stet.Act) (bool, error)) {
			if ok, err := do(t.Context(), "r", stet.Act{}); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		act(e.Runs().Pause)
		pass(t, 10*time.Second)
		look()
		act(e.Runs().Resume)
	})
	each("retry", "step 3s, retry 27s", "step 9s, retry 2m0s", nil, func(t *testing.T, _ *stet.Engine, look func()) {
		pass(t, 30*time.Second)
		look()
	})
	each("task", "worker tasks 10s, offered tasks 5s", "worker tasks 17s, offered tasks 5s", nil,
		func(t *testing.T, e *stet.Engine, look func()) {
			pass(t, 5*time.Second)
			w := worker{t, e, "vm"}
			task := w.one()
			pass(t, 10*time.Second)
			look()
			pass(t, 7*time.Second)
			if err := w.complete(&task); err != nil {
				t.Fatal(err)
			}
		})
	each("fix", "", "ended 8m0s", nil, func(t *testing.T, e *stet.Engine, look func()) {
		waitFailed(t, e, "r")
		look()
		pass(t, 8*time.Minute)
		fails = false
		if ok, err := e.Runs().Retry(t.Context(), "r", stet.Act{}); !ok || err != nil {
			t.Fatal(ok, err)
		}
	})
	each("stalls", "stalled 1h0m0s", "stalled 1h0m0s", nil, func(t *testing.T, e *stet.Engine, look func()) {
		waitStatus(t, e, "r", store.Stalled)
		pass(t, time.Hour)
		look()
		fails = false
		if ok, err := e.Runs().Resume(t.Context(), "r", stet.Act{}); !ok || err != nil {
			t.Fatal(ok, err)
		}
	})
	for _, name := range []string{"permit", "place"} {
		queue := map[string]string{"permit": "permit model 2s", "place": "place 2s"}[name]
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := serve(t, stet.Config{Workflows: []stet.Definition{steps}})
				createQueue(t, e, "model", stet.QueueSettings{Concurrency: 1})
				other(t, e, name)
				pass(t, time.Second)
				r := startOn(t, e, steps, name, stet.ID("r"))
				pass(t, time.Second)
				checkSpent(t, e, "r")
				if _, err := r.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got, want := checkSpent(t, e, "r"), "step 3s, "+queue; got != want {
					t.Errorf("afterwards: %s; want %s", got, want)
				}
			})
		})
	}
	t.Run("queue of the run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := serve(t, stet.Config{Workflows: []stet.Definition{steps}})
			createQueue(t, e, "model", stet.QueueSettings{Concurrency: 1})
			startOn(t, e, steps, "sleep", stet.OnQueue{Name: "model"})
			pass(t, time.Second)
			r := startOn(t, e, steps, "sleep", stet.ID("r"), stet.OnQueue{Name: "model"})
			pass(t, 9*time.Second)
			if got := checkSpent(t, e, "r"); got != "permit model 9s" {
				t.Errorf("while it waits: %s", got)
			}
			if _, err := r.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := checkSpent(t, e, "r"); got != "wait 1m0s, permit model 59s" {
				t.Errorf("afterwards: %s", got)
			}
		})
	})
	t.Run("claim", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			first := memory.New()
			cfg := stet.Config{Workflows: []stet.Definition{steps}}
			p := startProcess(t, first.Join(), cfg)
			r := startOn(t, p.Engine, steps, "sleep", stet.ID("r"))
			pass(t, 30*time.Second)
			p.stop()
			pass(t, 570*time.Second)
			cfg.Store = first.Join()
			idle, err := stet.New(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got := checkSpent(t, idle, "r"); got != "wait 1m0s, node 9m0s" {
				t.Errorf("without a process: %s", got)
			}
			cfg.Store = first.Join()
			e := serve(t, cfg)
			if _, err := e.Runs().Wait(t.Context(), r.ID()); err != nil {
				t.Fatal(err)
			}
			if got := checkSpent(t, e, "r"); got != "wait 1m0s, claim 9m0s" {
				t.Errorf("afterwards: %s", got)
			}
		})
	})
}

func waitFailed(t testing.TB, e *stet.Engine, id string) {
	t.Helper()
	untilRun(t, e, id, func(info *stet.RunInfo) bool { return info.Status == store.Failed })
}
