package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
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
	t.Parallel()
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
	t.Parallel()
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

// TestFormerRunsAreReloaded: a later build executes the runs that a former one has left
// suspended, as many per second as it may, goes on after a restart, and leaves alone those
// that it has loaded. A former build leaves alone those of a later one.
func TestFormerRunsAreReloaded(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const runs, rate = 1000, 50
				open := s.open(t)
				former, now := approvals(false), approvals(true)
				cfg := func(build string, w stet.Definition) stet.Config {
					return stet.Config{Workflows: []stet.Definition{w}, Build: build, ReloadRate: rate}
				}
				p := startProcess(t, open(), cfg("v1", former))
				for i := range runs {
					if _, err := former.Start(t.Context(), p.Engine, i); err != nil {
						t.Fatal(err)
					}
				}
				ended := func() int64 {
					t.Helper()
					tallies, err := p.Runs().Count(t.Context(), store.Filter{Statuses: []store.Status{store.Succeeded}})
					if err != nil {
						t.Fatal(err)
					}
					n := int64(0)
					for _, tally := range tallies {
						n += tally.Runs
					}
					return n
				}
				time.Sleep(time.Minute)
				p.bury(t)
				p = startProcess(t, open(), cfg("v0", now)) // earlier
				time.Sleep(time.Minute)
				if n := ended(); n != 0 {
					t.Errorf("an earlier build has executed %d runs", n)
				}
				p.bury(t)
				p = startProcess(t, open(), cfg("v2", now))
				time.Sleep(15 * time.Second)
				if n := ended(); n < 100 || n > 6*rate {
					t.Errorf("after 15 seconds %d have ended; the rate is %d per second", n, rate)
				}
				p.bury(t)
				p = startProcess(t, open(), cfg("v2", now))
				time.Sleep(time.Minute)
				if n := ended(); n != runs {
					t.Errorf("%d have ended; want %d", n, runs)
				}
				p.bury(t)
			})
		})
	}
}

// TestReloadingStopsForAWorkflowThatStalls: code that does not fit stalls a few runs, not all.
func TestReloadingStopsForAWorkflowThatStalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open := testStores[0].open(t)
		former := approvals(false)
		other := stet.Define("approvals", func(ctx stet.Context, _ int) (string, error) { return say(ctx, "else", "x") })
		p := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{former}, Build: "v1"})
		for i := range 200 {
			if _, err := former.Start(t.Context(), p.Engine, i); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		p.bury(t)
		p = startProcess(t, open(), stet.Config{Workflows: []stet.Definition{other}, Build: "v2"})
		time.Sleep(time.Hour)
		page, err := p.Store().List(t.Context(), store.Filter{Statuses: []store.Status{store.Stalled}, Limit: 1000})
		if err != nil || len(page.Runs) != 3 || page.Runs[0].Build != "v1" {
			t.Errorf("%d runs are stalled, %v; want 3, of the build v1", len(page.Runs), err)
		}
		p.bury(t)
	})
}

// TestReloadedRunsKeepTheirBuild: a run that goes on waiting under a later build is loaded
// once, and stays as it was, its build too; so it goes on after a rollback. What records
// something afterwards gives it the build.
func TestReloadedRunsKeepTheirBuild(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const runs = 30
				open := s.open(t)
				w := approvals(false)
				log := &lockedLog{}
				serve := func(build string, rate int) *process {
					return startProcess(t, open(), stet.Config{
						Workflows: []stet.Definition{w}, Build: build, ReloadRate: rate,
						Logger: slog.New(slog.NewTextHandler(log, nil)),
					})
				}
				p := serve("v1", 0)
				for i := range runs {
					if _, err := w.Start(t.Context(), p.Engine, i, stet.ID(strconv.Itoa(i))); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute)
				all := func() []store.Run {
					t.Helper()
					page, err := p.Store().List(t.Context(), store.Filter{Limit: 2 * runs})
					if err != nil {
						t.Fatal(err)
					}
					return page.Runs
				}
				before := all()
				p.bury(t)
				for _, c := range []struct {
					build string
					rate  int
					loads int // in all
				}{{"v2", stet.None, 0}, {"v2", 0, 1}, {"v2", 0, 1}, {"v3", 0, 2}, {"v2", 0, 2}, {"v1", 0, 2}} {
					p = serve(c.build, c.rate)
					time.Sleep(time.Minute)
					for i, r := range all() {
						was := before[i]
						if r.Build != "v1" || r.Status != store.Suspended || r.WakeAt != was.WakeAt || r.Started != was.Started {
							t.Fatalf("under %s a run is %+v; it was %+v", c.build, r, was)
						}
					}
					want := fmt.Sprintf("build=%s runs=%d stalled=0", c.build, runs)
					n := log.count("runs of former builds were loaded")
					if n != c.loads || n > 0 && c.build == "v3" && log.count(want) != 1 {
						t.Fatalf("under %s the runs were loaded %d times; want %d", c.build, n, c.loads)
					}
					p.bury(t)
				}
				p = serve("v2", 0)
				time.Sleep(time.Minute)
				if audit, err := p.Store().Audit(t.Context(), before[0].No); err != nil || len(audit) != 0 {
					t.Errorf("no operator has asked for anything, and the audit is %v, %v", audit, err)
				}
				if err := stet.Message[string]("approval").Send(t.Context(), p.Engine, "7", "yes"); err != nil {
					t.Fatal(err)
				}
				if got, err := w.Handle(p.Engine, "7").Wait(testContext(t)); err != nil || got != "approved" {
					t.Fatalf("it gave %q, %v", got, err)
				}
				for _, r := range all() {
					if want := map[bool]string{true: "v2", false: "v1"}[r.ID == "7"]; r.Build != want {
						t.Errorf("run %s is of the build %s; want %s", r.ID, r.Build, want)
					}
				}
				p.bury(t)
			})
		})
	}
}

// lockedLog is a log in memory.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count returns how often the log has a text.
func (l *lockedLog) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// forgetful is a store that has lost the wake times of the runs that were suspended.
type forgetful struct{ store.Store }

func (f forgetful) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	for i := range b.Turns {
		if u := b.Turns[i].Update; u != nil && u.Status == store.Suspended {
			u.WakeAt = 0
		}
	}
	return f.Store.Commit(ctx, b)
}

// TestLostWakeTimesAreFound: a suspended run without its wake time finds it again, whatever
// the build, and wakes; one that waits for a message alone is left alone.
func TestLostWakeTimesAreFound(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := s.open(t)
				sleeps := stet.Define("sleeps", func(ctx stet.Context, d time.Duration) (string, error) {
					if d == 0 {
						return stet.Message[string]("word").Receive(ctx)
					}
					return "slept", stet.Sleep(ctx, "long", d)
				})
				log := &lockedLog{}
				cfg := stet.Config{Workflows: []stet.Definition{sleeps}, Logger: slog.New(slog.NewTextHandler(log, nil))}
				p := startProcess(t, forgetful{open()}, cfg)
				for id, d := range map[string]time.Duration{"a": time.Hour, "b": time.Hour, "word": 0} {
					if _, err := sleeps.Start(t.Context(), p.Engine, d, stet.ID(id)); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(5 * time.Second)
				for id, lost := range map[string]bool{"a": true, "b": true, "word": false} {
					info, err := p.Runs().Info(t.Context(), id)
					if err != nil || info.Status != store.Suspended || info.LostWake() != lost {
						t.Errorf("%s is %+v, %v; want that its wake time is lost: %t", id, info, err, lost)
					}
				}
				p.bury(t)
				p = startProcess(t, open(), cfg)
				time.Sleep(time.Hour)
				for _, id := range []string{"a", "b"} {
					if info, err := p.Runs().Info(t.Context(), id); err != nil || info.Status != store.Succeeded {
						t.Errorf("after the hour %s is %+v, %v", id, info, err)
					}
				}
				if n := log.count("has lost its wake time"); n != 2 {
					t.Errorf("the log says so %d times; want 2", n)
				}
				p.bury(t)
			})
		})
	}
}
