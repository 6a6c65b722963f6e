package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

// takeBack is a compensation that fails once and wants to be given a value.
func takeBack(want string) stet.StepOption {
	return stet.Undo(func(c context.Context, got string) error {
		switch {
		case got != want:
			return stet.Permanent(fmt.Errorf("got %q, want %q", got, want))
		case stet.Attempt(c) == 1:
			return errors.New("again")
		}
		return nil
	}, stet.Retry{First: time.Millisecond, Jitter: stet.None})
}

// undoneSteps returns the locations of the steps of a run that were undone, in the
// order of their undoing, and those that owe it, in the order that is right.
func undoneSteps(t testing.TB, s store.Store) (undone, owed []string) {
	t.Helper()
	ctx := context.Background()
	page, err := s.List(ctx, store.Filter{})
	if err != nil || len(page.Runs) != 1 {
		t.Fatal(page, err)
	}
	entries, err := s.History(ctx, store.HistoryQuery{Run: page.Runs[0].No})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(entries, func(a, b store.Entry) int { return int(a.Seq - b.Seq) })
	for _, e := range entries {
		switch place := location.Loc(e.Loc).String(); {
		case e.State != store.Done:
		case e.Kind == store.KindUndo:
			undone = append(undone, strings.TrimSuffix(place, "/undo"))
		case e.Owes:
			owed = append([]string{place}, owed...)
		}
	}
	return undone, owed
}

// undoCases end with undoing.
var undoCases = []struct {
	name   string
	end    string
	drive  func(context.Context, *stet.Engine, string) error
	undone []string // at least these
	code   func(stet.Context, string) (string, error)
}{
	{
		name: "failure", end: "step last failed: no", undone: []string{"a", "b"}, // and slow/reserve, if it has begun
		code: func(ctx stet.Context, _ string) (string, error) {
			for _, name := range []string{"a", "b"} {
				if _, err := say(ctx, name, name, takeBack(name)); err != nil {
					return "", err
				}
			}
			slow := stet.Go(ctx, "slow", func(ctx stet.Context) (string, error) {
				return stet.Step(ctx, "reserve", func(c context.Context) (string, error) {
					select {
					case <-c.Done(): // cancelled, and it succeeds all the same
					case <-time.After(time.Hour): // after a crash it gets no notice
					}
					return "late", nil
				}, takeBack("late"))
			})
			quick := stet.Go(ctx, "quick", func(ctx stet.Context) (string, error) { return say(ctx, "s", "q") })
			if _, _, err := stet.Race(ctx, slow, quick); err != nil {
				return "", err
			}
			return stet.Step(ctx, "last", func(context.Context) (string, error) {
				return "", stet.Permanent(errors.New("no"))
			}, takeBack("never"))
		},
	},
	{
		name: "cancel", end: "cancelled", undone: []string{"first", "clean"},
		drive: cancelAsleep,
		code: func(ctx stet.Context, _ string) (string, error) {
			if _, err := say(ctx, "first", "1", takeBack("1")); err != nil {
				return "", err
			}
			err := stet.Sleep(ctx, "long", time.Hour)
			if !errors.Is(err, stet.ErrCancelled) {
				return "", fmt.Errorf("slept: %v", err)
			}
			return say(stet.WithoutCancel(ctx), "clean", "2", takeBack("2"))
		},
	},
}

// TestUndoCrashEverywhere kills the process at every commit of runs that are
// undone: each step that owes it is undone once, in the right order.
func TestUndoCrashEverywhere(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		for _, c := range undoCases {
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				opts := []stettest.CrashOption{
					crashFaults(t, s.name),
					stettest.Driving(c.drive),
					stettest.On(func(tb testing.TB) func() store.Store {
						open := s.open(tb)
						handle := open()
						tb.Cleanup(func() {
							undone, owed := undoneSteps(tb, handle)
							if !slices.Equal(undone, owed) {
								tb.Errorf("undone were %q, want %q", undone, owed)
							}
							for _, place := range c.undone {
								if !slices.Contains(undone, place) {
									tb.Errorf("undone were %q, without %s", undone, place)
								}
							}
						})
						return open
					}),
				}
				_, err := stettest.CrashEverywhere(t, stet.Define("w", c.code), "", opts...)
				if e := (*stet.RunError)(nil); !errors.As(err, &e) || e.Err.Error() != c.end {
					t.Errorf("the run ends with %v, want %s", err, c.end)
				}
			})
		}
	}
}
