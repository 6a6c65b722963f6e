package e2e_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// approvals waits three days for an approval after a step, or does not wait any more.
func approvals(removed bool) *stet.Workflow[int, string] {
	return stet.Define("approvals", func(ctx stet.Context, _ int) (string, error) {
		if _, err := say(ctx, "ask", "asked"); err != nil {
			return "", err
		}
		if removed {
			stet.Removed(ctx, "approval")
		} else if _, err := stet.Message[string]("approval").Receive(ctx, stet.Within(72*time.Hour)); err != nil {
			return "", err
		}
		return say(ctx, "approve", "approved")
	})
}

// TestANudgeAfterAWaitWasRemoved: code without the wait goes on by a nudge, and not before
// the wait is over without one. Where the code still waits a nudge changes nothing.
func TestANudgeAfterAWaitWasRemoved(t *testing.T) {
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := s.open(t)
				former, now := approvals(false), approvals(true)
				p := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{former}})
				if _, err := former.Start(t.Context(), p.Engine, 1, stet.ID("r")); err != nil {
					t.Fatal(err)
				}
				waitStatus(t, p.Engine, "r", store.Suspended)
				before := look(t, p.Engine, "r")
				for range 2 { // in memory, and loaded
					if ok, err := p.Runs().Nudge(t.Context(), "r", stet.Act{By: "ann", Why: "a try"}); !ok {
						t.Fatal(err)
					}
					waitStatus(t, p.Engine, "r", store.Suspended)
					time.Sleep(time.Minute)
				}
				if after := look(t, p.Engine, "r"); after != before {
					t.Errorf("after two nudges it is %+v; before %+v", after, before)
				}
				p.bury(t)

				p = startProcess(t, open(), stet.Config{Workflows: []stet.Definition{now}})
				time.Sleep(time.Hour)
				waitStatus(t, p.Engine, "r", store.Suspended)
				if ok, err := p.Runs().Nudge(t.Context(), "r", stet.Act{By: "ann"}); !ok {
					t.Fatal(err)
				}
				if got, err := now.Handle(p.Engine, "r").Wait(testContext(t)); err != nil || got != "approved" {
					t.Fatalf("it gave %q, %v", got, err)
				}
				audit, err := p.Store().Audit(t.Context(), 1)
				if err != nil || len(audit) != 3 || audit[0].Verb != "nudge" || audit[0].Who != "ann" || audit[0].Why != "a try" {
					t.Errorf("the audit is %+v, %v", audit, err)
				}
				p.bury(t)
			})
		})
	}
}

// glance is what a nudge leaves as it is.
type glance struct {
	status store.Status
	wakeAt store.Time
	ops    int
}

func look(t *testing.T, e *stet.Engine, id string) glance {
	t.Helper()
	page, err := e.Store().List(t.Context(), store.Filter{IDs: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	history, err := e.Store().History(t.Context(), store.HistoryQuery{Run: page.Runs[0].No})
	if err != nil {
		t.Fatal(err)
	}
	return glance{page.Runs[0].Status, page.Runs[0].WakeAt, len(history)}
}

// TestANudgeOfCodeThatDoesNotFit: the run stalls as it would when its wait is over, and the
// nudge says so. It is refused for all runs whose code is not to be executed now.
func TestANudgeOfCodeThatDoesNotFit(t *testing.T) {
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := s.open(t)
				former := approvals(false)
				other := stet.Define("approvals", func(ctx stet.Context, _ int) (string, error) { return say(ctx, "else", "x") })
				p := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{former}})
				start := func(id string, opts ...stet.StartOption) {
					t.Helper()
					if _, err := former.Start(t.Context(), p.Engine, 1, append(opts, stet.ID(id))...); err != nil {
						t.Fatal(err)
					}
				}
				start("r")
				start("paused")
				start("ended")
				start("later", stet.StartAfter(time.Hour))
				for _, id := range []string{"r", "paused", "ended"} {
					waitStatus(t, p.Engine, id, store.Suspended)
				}
				if ok, err := p.Runs().Pause(t.Context(), "paused", stet.Act{}); !ok {
					t.Fatal(err)
				}
				if ok, err := p.Runs().Terminate(t.Context(), "ended", stet.Act{}); !ok {
					t.Fatal(err)
				}
				p.bury(t)
				p = startProcess(t, open(), stet.Config{Workflows: []stet.Definition{other}})
				for _, c := range []struct {
					id, text string
					is       error
				}{
					{"r", "the run is stalled", stet.ErrRefused},
					{"r", "it is stalled: resume it, which executes its code again", stet.ErrRefused},
					{"paused", "it is paused: resume it, which executes its code again", stet.ErrRefused},
					{"later", "it is queued: its code is executed when it begins", stet.ErrRefused},
					{"ended", "already cancelled", stet.ErrTerminal},
					{"none", "not found", stet.ErrNotFound},
				} {
					ok, err := p.Runs().Nudge(testContext(t), c.id, stet.Act{})
					if ok || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
						t.Errorf("%s: %t, %v; want %q", c.id, ok, err, c.text)
					}
				}
				info, err := p.Runs().Info(t.Context(), "r")
				if err != nil || info.Status != store.Stalled || !strings.HasPrefix(info.Reason, "mismatch at ") {
					t.Errorf("it is %s: %s, %v", info.Status, info.Reason, err)
				}
				for _, act := range []stet.Act{{Children: true}, {AnyBuild: true}} {
					if _, err := p.Runs().Nudge(t.Context(), "r", act); !errors.Is(err, stet.ErrInvalid) {
						t.Errorf("with %+v: %v", act, err)
					}
				}
				p.bury(t)
			})
		})
	}
}
