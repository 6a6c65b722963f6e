package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// TestPerNode: each node executes as many attempts of a name as it may, and others beside
// them. One that waits for its turn has no place of MaxSteps, and its time has not begun.
func TestPerNode(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 2} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := memory.New()
				definitions := make([]stet.Definition, 0, 2)
				logs := make([]actLog, nodes)
				var engines []*stet.Engine
				var work, other *stet.Workflow[string, string]
				for i := range nodes {
					l := &logs[i]
					work = stet.Define("work", func(ctx stet.Context, in string) (string, error) {
						return stet.Step(ctx, "s", func(ctx context.Context) (string, error) {
							l.begin(in)
							defer l.end()
							return in, takes(ctx, time.Minute)
						}, stet.PerNode{Name: "card", Limit: 2}, stet.Retry{Timeout: 90 * time.Second, Attempts: 1})
					})
					other = stet.Define("other", func(ctx stet.Context, in string) (string, error) {
						return stet.Step(ctx, "s", func(context.Context) (string, error) { return in, nil })
					})
					definitions = append(definitions[:0:0], work, other)
					engines = append(engines, serve(t, stet.Config{
						Store: first.Join(), Workflows: definitions, MaxSteps: 3, LeaseTTL: 24 * time.Hour,
					}))
				}
				begun := time.Now()
				var runs []*stet.Run[string]
				for n := range 8 {
					runs = append(runs, startOn(t, engines[0], work, fmt.Sprint(n)))
				}
				if err := takes(t.Context(), time.Second); err != nil {
					t.Fatal(err)
				}
				quick := startOn(t, engines[0], other, "quick")
				if _, err := quick.Wait(t.Context()); err != nil || time.Since(begun) > 30*time.Second {
					t.Errorf("another step waited for %s: %v", time.Since(begun), err)
				}
				for _, r := range runs {
					if _, err := r.Wait(t.Context()); err != nil {
						t.Error(err)
					}
				}
				for i := range logs {
					if logs[i].most > 2 || nodes == 1 && logs[i].most != 2 {
						t.Errorf("node %d has executed %d at a time", i, logs[i].most)
					}
				}
				if took := time.Since(begun).Round(time.Minute); nodes == 1 && took != 4*time.Minute {
					t.Errorf("eight of a minute, two at a time, took %s", took)
				}
			})
		})
	}
}

// TestPerNodeWithAPermit: it holds the permit while it waits for its turn. A cancel does not
// wait for that.
func TestPerNodeWithAPermit(t *testing.T) {
	t.Parallel()
	var l actLog
	gate := make(chan struct{})
	w := gatedUse(&l, gate, stet.OnStepQueue("q"), stet.PerNode{Name: "card", Limit: 1})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	createQueue(t, e, "q", stet.QueueSettings{Concurrency: 2})
	a, b := startOn(t, e, w, "a"), startOn(t, e, w, "b")
	untilQueue(t, e, "q", stands(2, 0))
	for len(l.order()) == 0 {
		if err := takes(testContext(t), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	waits, executes := b, a
	if l.order()[0] == "b" {
		waits, executes = a, b
	}
	if _, err := waits.Cancel(testContext(t), stet.Act{}); err != nil {
		t.Fatal(err)
	}
	if _, err := waits.Wait(testContext(t)); !errors.Is(err, stet.ErrCancelled) {
		t.Errorf("the one that waits ends with %v", err)
	}
	untilQueue(t, e, "q", stands(1, 0))
	close(gate)
	if got := outcome(t, executes); len(l.order()) != 1 || len(got) != 1 {
		t.Errorf("the bodies of %q were executed; the other one ends with %s", l.order(), got)
	}
}

func TestInvalidPerNode(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		for _, bad := range []stet.PerNode{{}, {Name: "x"}, {Limit: 1}, {Name: "x", Limit: -1}} {
			if err := stet.Do(ctx, "bad", func(context.Context) error { return nil }, bad); !errors.Is(err, stet.ErrInvalid) {
				return "", fmt.Errorf("%+v: %w", bad, err)
			}
		}
		return "", nil
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	if got := outcome(t, startOn(t, e, w, "")); got != "" {
		t.Errorf("it ends with %s", got)
	}
}
