package e2e_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// A step is undone in a page of its history as in the whole, also if its compensation
// stands in the next one.
func TestUndoneStepsInPagesOfAHistory(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context) error { return nil }
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		err := errors.Join(stet.Do(ctx, "a", nothing, stet.UndoDo(nothing)), stet.Do(ctx, "b", nothing),
			stet.Do(ctx, "c", nothing, stet.UndoDo(nothing)))
		return 0, errors.Join(err, errors.New("too late"))
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	r := begin(t, e, w, 0)
	outcome(t, r)
	whole, err := e.Runs().History(testContext(t), r.ID(), stet.HistoryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	undone := func(entries []stet.HistoryEntry) (steps []string) {
		for i := range entries {
			if entries[i].Undone {
				steps = append(steps, entries[i].Location)
			}
		}
		return steps
	}
	if got := undone(whole); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("undone: %q; want a and c", got)
	}
	for limit := range len(whole) + 1 {
		if limit == 0 {
			continue
		}
		var paged []stet.HistoryEntry
		for q := (stet.HistoryQuery{Limit: limit}); ; q.After = paged[len(paged)-1].Location {
			page, err := e.Runs().History(testContext(t), r.ID(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > limit {
				t.Fatalf("a page of at most %d has %d entries", limit, len(page))
			}
			if len(page) == 0 {
				break
			}
			paged = append(paged, page...)
		}
		if len(paged) != len(whole) || !slices.Equal(undone(paged), undone(whole)) {
			t.Errorf("pages of %d: %d entries, undone %q; want %d and %q",
				limit, len(paged), undone(paged), len(whole), undone(whole))
		}
	}
}

// A failure is found as data wherever an error of a run is returned, whatever type
// Config.Errors makes of it: of a run that has failed or has stalled for a failure, of a
// step, and of a child.
func TestFailureRecords(t *testing.T) {
	t.Parallel()
	errEmpty := errors.New("the shelf is empty")
	body := func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "pick", func(context.Context) (int, error) { return 0, errEmpty }, stet.Retry{Attempts: 1})
	}
	fails := stet.Define("fails", body)
	stalls := stet.Define("stalls", body, stet.StallOnFailure)
	parent := stet.Define("parent", func(ctx stet.Context, _ int) (int, error) { return fails.Call(ctx, 0) })
	e := serve(t, stet.Config{
		Store: memory.New(), Workflows: []stet.Definition{fails, stalls, parent},
		Errors: []stet.ErrorCode{stet.Sentinel("empty", errEmpty)},
	})
	ctx := testContext(t)
	record := func(what string, err error, code string) *stet.FailureRecord {
		t.Helper()
		var r *stet.FailureRecord
		if !errors.As(err, &r) || r.Code != code || r.Error() == "" {
			t.Fatalf("%s: %v has the record %+v; want one with the code %s", what, err, r, code)
		}
		return r
	}
	for _, w := range []*stet.Workflow[int, int]{fails, stalls} {
		id := begin(t, e, w, 0).ID()
		info, err := e.Runs().Wait(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		step := record(w.Name(), info.Err, "step")
		if step.Location != "pick" || step.Attempts != 1 || len(step.Causes) != 1 || step.Causes[0].Code != "empty" {
			t.Errorf("%s: %+v", w.Name(), step)
		}
		if !errors.Is(info.Err, errEmpty) {
			t.Errorf("%s: %v is not %v", w.Name(), info.Err, errEmpty)
		}
		entries, err := e.Runs().History(ctx, id, stet.HistoryQuery{Values: true})
		if err != nil || len(entries) != 1 {
			t.Fatal(entries, err)
		}
		if entry := record("entry", entries[0].Err(), "step"); entry.Location != step.Location {
			t.Errorf("the entry's failure is at %s, the run's at %s", entry.Location, step.Location)
		}
		if !errors.Is(entries[0].Err(), errEmpty) {
			t.Errorf("%v is not %v", entries[0].Err(), errEmpty)
		}
	}
	run := begin(t, e, parent, 0)
	_, err := run.Wait(ctx)
	if child := record("parent", err, "run"); child.Cause == nil || child.Cause.Code != "step" {
		t.Errorf("the failure of a child: %+v", child)
	}
	stopped := begin(t, e, stalls, 0).ID()
	waitStatus(t, e, stopped, store.Stalled)
	if _, err := e.Runs().Terminate(ctx, stopped, stet.Act{}); err != nil {
		t.Fatal(err)
	}
	info, err := e.Runs().Info(ctx, stopped)
	if r := (*stet.FailureRecord)(nil); err != nil || info.Status != store.Cancelled || errors.As(info.Err, &r) {
		t.Errorf("a cancelled run has no failure: %s, %+v, %v", info.Status, r, err)
	}
}
