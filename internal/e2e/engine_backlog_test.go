package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// slowLoads is a store that takes a while for each run that it loads.
type slowLoads struct{ store.Store }

func (s slowLoads) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	if err := takes(ctx, time.Duration(len(runs))*time.Millisecond); err != nil {
		return nil, nil, err
	}
	return s.Store.Load(ctx, runs)
}

// TestNewWorkDoesNotWaitForABacklog: thousands of runs are due when a process begins, as after an outage, and to load
// them takes seconds. A run that another process starts meanwhile ends within a second.
func TestNewWorkDoesNotWaitForABacklog(t *testing.T) {
	t.Parallel()
	const backlog = 5000
	empty := func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "empty", func(context.Context) (int, error) { return 1, nil })
	}
	old, fresh := stet.Define("old", empty), stet.Define("fresh", empty)
	for _, w := range []*stet.Workflow[int, int]{old, fresh} {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New()
			outer := client(t, s, old, fresh)
			runs, err := old.StartAll(t.Context(), outer, make([]int, backlog), func(int) []stet.StartOption {
				return []stet.StartOption{stet.StartAfter(time.Hour)}
			})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Hour)
			serve(t, stet.Config{Store: slowLoads{s.Join()}, Workflows: []stet.Definition{old, fresh}})
			for i := range 4 {
				time.Sleep(100 * time.Millisecond)
				at := time.Now()
				r, err := w.Start(t.Context(), outer, 0, stet.ID(fmt.Sprint(w.Name(), i)))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(at); took > time.Second {
					t.Errorf("run %s has ended after %s; want 1s at most", r.ID(), took)
				}
			}
			if _, err := runs[backlog-1].Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestLongBodiesOfAWorkflowLeavePlacesToOthers, by the defaults, and without a queue.
func TestLongBodiesOfAWorkflowLeavePlacesToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		long := stet.Define("long", func(ctx stet.Context, _ int) (int, error) {
			return stet.Step(ctx, "long", func(context.Context) (int, error) {
				time.Sleep(20 * time.Second)
				return 1, nil
			})
		})
		short := stet.Define("short", func(ctx stet.Context, _ int) (int, error) {
			return stet.Step(ctx, "short", func(context.Context) (int, error) { return 1, nil })
		})
		e := serve(t, stet.Config{Workflows: []stet.Definition{long, short}})
		if _, err := long.StartAll(t.Context(), e, make([]int, 2500), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		at := time.Now()
		r, err := short.Start(t.Context(), e, 0)
		if err == nil {
			_, err = r.Wait(t.Context())
		}
		if took := time.Since(at); err != nil || took > time.Second {
			t.Errorf("the short run has ended after %s, %v; want 1s at most", took, err)
		}
		time.Sleep(time.Minute + 2*time.Second)
		left, err := e.Runs().Count(t.Context(), store.Filter{Statuses: []store.Status{store.Running}})
		if err != nil || len(left) > 0 {
			t.Errorf("after a minute %+v runs are left, %v", left, err)
		}
	})
}
