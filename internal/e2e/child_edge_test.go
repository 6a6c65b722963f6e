package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestChildThatNeverRanTellsItsEnd: a child whose code no node has now is queued, and its cancel or terminate reaches
// the parent like any end.
func TestChildThatNeverRanTellsItsEnd(t *testing.T) {
	t.Parallel()
	elsewhere := stet.Define("elsewhere", func(stet.Context, int) (string, error) { return "", nil })
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			open := s.open(t)
			other := startProcess(t, open(), stet.Config{Workflows: []stet.Definition{elsewhere}})
			for ctx := testContext(t); ; { // until its workflow is known
				d, err := other.Describe(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if len(d.Workflows) > 0 && other.Owner() {
					break
				}
			}
			other.bury(t)
			w := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
				for _, name := range []string{"one", "two"} {
					_, err := stet.Ref[int, string]("elsewhere").Call(ctx, 0, stet.Named(name))
					var failed *stet.RunError
					if !errors.As(err, &failed) || failed.Status != store.Cancelled {
						return "", fmt.Errorf("the end of %s is %w", name, err)
					}
				}
				return "told", nil
			})
			e := serve(t, stet.Config{Store: open(), Workflows: []stet.Definition{w}, Poll: time.Minute})
			ctx := testContext(t)
			r, err := w.Start(ctx, e, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i, end := range []func(context.Context, string, string) (bool, error){
				func(ctx context.Context, id, reason string) (bool, error) {
					return e.Runs().Cancel(ctx, id, stet.Act{Why: reason})
				},
				func(ctx context.Context, id, reason string) (bool, error) {
					return e.Runs().Terminate(ctx, id, stet.Act{Why: reason})
				},
			} {
				var runs []store.Run
				for len(runs) <= i {
					runs = children(t, e, r.ID())
				}
				if runs[i].Status != store.Queued {
					t.Errorf("the child is %s", runs[i].Status)
				}
				if ok, err := end(ctx, runs[i].ID, ""); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
			if got, err := r.Wait(ctx); err != nil || got != "told" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestDeadlineOfAnAwait(t *testing.T) {
	t.Parallel()
	e, r := parent(t, func(ctx stet.Context) (string, error) {
		o, err := told.Go(ctx, "")
		if err != nil {
			return "", err
		}
		if _, err := o.Await(ctx, stet.Within(time.Millisecond)); !errors.Is(err, stet.ErrTimeout) {
			return "", fmt.Errorf("in a millisecond: %w", err)
		}
		if _, err := stet.Await[string](ctx, "again", o.RunID(ctx),
			stet.Within(time.Millisecond)); !errors.Is(err, stet.ErrTimeout) {
			return "", fmt.Errorf("by its ID, in a millisecond: %w", err)
		}
		if err := stet.Do(ctx, "patience", func(context.Context) error { return nil }); err != nil {
			return "", err
		}
		return o.Await(ctx, stet.Within(time.Hour), stet.Named("patiently"))
	})
	waitsOnceMore(t, e, r.ID())
	child := children(t, e, r.ID())[0].ID
	if err := goOn.Send(testContext(t), e, child, "at last"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Wait(testContext(t)); err != nil || got != "at last" {
		t.Errorf("got %q, %v", got, err)
	}
}

// waitsOnceMore blocks until the step "patience" is done.
func waitsOnceMore(t *testing.T, e *stet.Engine, id string) {
	t.Helper()
	untilHistory(t, e, id, func(entry stet.HistoryEntry) bool { return entry.Location == "patience" && entry.Number > 0 })
}

func TestBadInputOfAChildStartsNothing(t *testing.T) {
	t.Parallel()
	type cyclic struct{ Self any }
	odd := stet.Ref[cyclic, int]("square")
	text := stet.Ref[string, int]("square")
	w := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
		_, large := text.Go(ctx, strings.Repeat("x", 5000), stet.Named("large"))
		_, bad := odd.Detach(ctx, cyclic{Self: make(chan int)}, stet.Named("bad"))
		_, wrong := text.Call(ctx, "no number", stet.Named("wrong"))
		return fmt.Sprint(errors.Is(large, stet.ErrTooLarge), errors.Is(bad, stet.ErrInvalid),
			errors.Is(wrong, stet.ErrInput)), nil
	})
	cfg := family(w)
	cfg.MaxValue = 4000
	cfg.OnBug = stet.FailOnBug // by default the child stalls
	e := serve(t, cfg)
	r, err := w.Start(testContext(t), e, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Wait(testContext(t)); err != nil || got != "true true true" {
		t.Errorf("got %q, %v", got, err)
	}
	if runs := children(t, e, r.ID()); len(runs) != 1 {
		t.Errorf("there are %d children, want the one whose input does not fit its workflow", len(runs))
	}
}

// TestExportedParentReplays: a history with children of every kind fits the code
// that has made it, and not code that has lost one.
func TestExportedParentReplays(t *testing.T) {
	t.Parallel()
	lost := false
	w := stet.Define("parent", func(ctx stet.Context, _ int) (int, error) {
		if _, err := declining.Call(ctx, ""); err == nil {
			return 0, errors.New("the child has not failed")
		}
		if !lost {
			if _, err := told.Detach(ctx, ""); err != nil {
				return 0, err
			}
		}
		if _, err := told.Go(ctx, "", stet.Named("dropped")); err != nil {
			return 0, err
		}
		if _, err := stet.Await[int](ctx, "nobody", "nobody"); !errors.Is(err, stet.ErrNotFound) {
			return 0, err
		}
		return square.Call(ctx, 3)
	})
	cfg := family(w)
	cfg.Logger = slog.New(slog.DiscardHandler)
	e := serve(t, cfg)
	ctx := testContext(t)
	r, err := w.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := e.Runs().Export(ctx, r.ID(), &file); err != nil {
		t.Fatal(err)
	}
	if err := e.Replay(ctx, bytes.NewReader(file.Bytes())); err != nil {
		t.Errorf("the same code: %v", err)
	}
	lost = true
	var replay *stet.ReplayError
	if err := e.Replay(ctx, bytes.NewReader(file.Bytes())); !errors.As(err, &replay) || replay.Location != "told" {
		t.Errorf("code without the detached child: %v", err)
	}
}

// TestFamilyOnSeveralSlots: parent and children are at home in different slots.
func TestFamilyOnSeveralSlots(t *testing.T) {
	t.Parallel()
	e := serve(t, stet.Config{Store: memory.New(memory.Slots(16)), Workflows: []stet.Definition{manyChildren, square},
		Poll: time.Minute})
	r, err := manyChildren.Start(testContext(t), e, 100)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Wait(testContext(t)); err != nil || got != 328350 {
		t.Errorf("got %d, %v", got, err)
	}
	slots := map[int]bool{}
	for _, child := range children(t, e, r.ID()) {
		slots[child.Shard.Slot] = true
	}
	if len(slots) < 8 {
		t.Errorf("100 children are in %d slots", len(slots))
	}
}
