package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/sqlite"
)

// callsAt makes an engine, gives it to begin, and calls RunOnce, until nothing is planned before
// the end: each time on an engine of its own, or all the time on one. It returns how often.
func callsAt(t *testing.T, end time.Time, newEngine func() *stet.Engine, again bool) int {
	t.Helper()
	e := newEngine()
	for n := 1; ; n++ {
		next, err := e.RunOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if next.IsZero() || next.After(end) {
			time.Sleep(time.Until(end))
			return n
		}
		time.Sleep(time.Until(next))
		if !again {
			e = newEngine()
		}
	}
}

// Schedules, queues with rates, children, messages between runs, and timeouts go on by calls of
// RunOnce alone, each when the one before has asked for it.
func TestRunOnceDoesWhatRunDoes(t *testing.T) {
	t.Parallel()
	tick := stet.Define("tick", func(stet.Context, string) (int, error) { return 1, nil })
	limited := stet.Define("limited", func(ctx stet.Context, i int) (int, error) {
		return stet.Step(ctx, "work", func(context.Context) (int, error) { return i, nil })
	})
	child := stet.Define("child", func(ctx stet.Context, i int) (int, error) {
		return i, stet.Sleep(ctx, "nap", time.Duration(i)*time.Hour)
	})
	parent := stet.Define("parent", func(ctx stet.Context, n int) (int, error) {
		sum := 0
		for i := range n {
			out, err := child.Call(ctx, i)
			if err != nil {
				return 0, err
			}
			sum += out
		}
		_, err := stet.Message[int]("never").Receive(ctx, stet.Within(30*time.Minute))
		if !errors.Is(err, stet.ErrTimeout) {
			return 0, fmt.Errorf("want a timeout: %w", err)
		}
		return sum, nil
	})
	defs := []stet.Definition{tick, limited, child, parent}
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memory.New() },
		"slots":  func(*testing.T) store.Store { return memory.New(memory.Slots(8)) },
		"sqlite": func(t *testing.T) store.Store {
			s, err := sqlite.Open(t.Context(), t.TempDir()+"/stet.db")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " again ", again), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					ctx, s := t.Context(), open(t)
					engine := func() *stet.Engine { return client(t, s, defs...) }
					e := engine()
					begun := time.Now()
					ok(t, tick.Schedule(ctx, e, "hourly", "", stet.Schedule{Every: time.Hour}))
					ok(t, e.Queues().Create(ctx, "slow", stet.QueueSettings{Rate: 1, Per: 10 * time.Minute}))
					for i := range 5 {
						_, err := limited.Start(ctx, e, i, stet.ID(fmt.Sprint("limited ", i)), stet.OnQueue{Name: "slow"})
						ok(t, err)
					}
					run, err := parent.Start(ctx, e, 4, stet.ID("parent"))
					ok(t, err)
					n := callsAt(t, begun.Add(12*time.Hour), engine, again)
					if n < 12 || n > 60 {
						t.Errorf("%d calls in 12 hours; want one for each time at which something is due", n)
					}
					if got, err := run.Wait(ctx); got != 6 || err != nil {
						t.Errorf("the parent returns %d and %v; want 6", got, err)
					}
					for i := range 5 {
						waitStatus(t, e, fmt.Sprint("limited ", i), store.Succeeded)
					}
					if runs := listed(t, e, "hourly"); len(runs) < 11 || len(runs) > 12 {
						t.Errorf("%d runs of the schedule in 12 hours", len(runs))
					}
				})
			})
		}
	}
}

// Another process that owns a file is named, and the call returns at once.
func TestRunOnceBesideAnotherProcess(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/stet.db"
	open := func() store.Store {
		s, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	e := serve(t, stet.Config{Store: open(), Node: "server"})
	for !e.Owner() {
		time.Sleep(time.Millisecond)
	}
	function := client(t, open())
	next, err := function.RunOnce(t.Context())
	if !errors.Is(err, stet.ErrHeld) || next.IsZero() {
		t.Errorf("RunOnce returns %s and %v; want ErrHeld", next, err)
	}
}
