package e2e_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestAStallLeavesTheBuild: a build whose code does not fit leaves no trace in the run's
// build; once it has recorded something, the run is of that build, until an operator lets
// any build take it up.
func TestAStallLeavesTheBuild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4)
		defer f.done()
		code := func(first string) func(*stet.Config) {
			return func(cfg *stet.Config) {
				cfg.Build = first
				cfg.Workflows = []stet.Definition{stet.Define("fleet", func(ctx stet.Context, n int) (string, error) {
					if _, err := f.step(ctx, first, n); err != nil {
						return "", err
					}
					return fleetWord.Receive(ctx)
				})}
			}
		}
		old := f.join(code("v1"))
		f.settle(time.Minute, old)
		if _, err := fleetRef.Start(t.Context(), f.outer, 1, stet.ID("r")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f.leave(old)
		bad := f.join(code("v2"))
		if err := fleetWord.Send(t.Context(), f.outer, "r", "w"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		info, err := f.outer.Runs().Info(t.Context(), "r")
		if err != nil || info.Status != store.Stalled || info.Build != "v1" {
			t.Fatalf("after the wrong deploy it is %s of the build %q, %v", info.Status, info.Build, err)
		}
		f.leave(bad)
		f.join(code("v1"))
		time.Sleep(time.Minute)
		if ok, err := f.outer.Runs().Resume(t.Context(), "r", stet.Act{}); !ok {
			t.Fatal(err)
		}
		if got, err := fleetRef.Handle(f.outer, "r").Wait(t.Context()); err != nil || got != "w" {
			t.Fatalf("it gave %q, %v", got, err)
		}
	})
}

// TestAnEarlierBuildTakesUp: a run that a later build has worked on waits for that build, by
// whatever verb it goes on, unless the act lets any build take it up.
func TestAnEarlierBuildTakesUp(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(stet.Runs, *testing.T, stet.Act) (bool, error){
		"resume": func(r stet.Runs, t *testing.T, act stet.Act) (bool, error) { return r.Resume(t.Context(), "r", act) },
		"rewind": func(r stet.Runs, t *testing.T, act stet.Act) (bool, error) {
			return r.Rewind(t.Context(), "r", "/", act)
		},
		"edit": func(r stet.Runs, t *testing.T, act stet.Act) (bool, error) {
			return r.EditResult(t.Context(), "r", "a", "x", act)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 4)
				defer f.done()
				code := func(build string) func(*stet.Config) {
					return func(cfg *stet.Config) {
						cfg.Build, cfg.Workflows = build, []stet.Definition{f.deployed(false)}
					}
				}
				late := f.join(code("v2"))
				f.settle(time.Minute, late)
				if _, err := fleetRef.Start(t.Context(), f.outer, 1, stet.ID("r")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if ok, err := f.outer.Runs().Pause(t.Context(), "r", stet.Act{}); !ok {
					t.Fatal(err)
				}
				f.leave(late)
				f.join(code("v1"))
				time.Sleep(time.Minute)
				act := stet.Act{By: "ann", AnyBuild: true}
				if ok, err := ask(f.outer.Runs(), t, act); !ok {
					t.Fatal(err)
				}
				if name != "resume" { // it stays paused
					if ok, err := f.outer.Runs().Resume(t.Context(), "r", stet.Act{}); !ok {
						t.Fatal(err)
					}
				}
				if err := fleetWord.Send(t.Context(), f.outer, "r", "w"); err != nil {
					t.Fatal(err)
				}
				if got, err := fleetRef.Handle(f.outer, "r").Wait(t.Context()); err != nil {
					t.Fatalf("it gave %q, %v", got, err)
				}
				audit, err := f.outer.Store().Audit(t.Context(), 1)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(audit[1].Detail, "any build may take it up, not only v2 and later ones") {
					t.Errorf("the audit says %+v", audit[1])
				}
			})
		})
	}
}
