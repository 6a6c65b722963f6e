package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

// bookTrip books a trip with one of two suppliers. The first takes the hotel and the car and
// has no seat; what was taken is given back before the second is tried. With "none" that has
// none either, and the run fails.
func bookTrip(ctx stet.Context, seats string) (string, error) {
	take := func(ctx stet.Context, what string) error {
		return stet.Do(ctx, what, func(context.Context) error { return nil },
			stet.UndoDo(func(c context.Context) error {
				if stet.Attempt(c) == 1 {
					return errors.New("again")
				}
				return nil
			}))
	}
	if err := take(ctx, "insurance"); err != nil {
		return "", err
	}
	for _, supplier := range []string{"north", "south"} {
		_, err := stet.Saga(ctx, "book", func(ctx stet.Context) (any, error) {
			if err := take(ctx, "hotel"); err != nil {
				return nil, err
			}
			f := stet.Go(ctx, "on wheels", func(ctx stet.Context) (any, error) {
				return stet.Saga(ctx, "rent", func(ctx stet.Context) (any, error) { return nil, take(ctx, "car") })
			})
			if _, err := f.Await(ctx); err != nil {
				return nil, err
			}
			return nil, stet.Do(ctx, "flight", func(context.Context) error {
				if seats != supplier {
					return stet.Permanent(errors.New("no seat"))
				}
				return nil
			})
		}, stet.Key(supplier))
		if err == nil {
			return supplier, nil
		}
	}
	return "", errSoldOut
}

// TestSagaCrashesEverywhere: whatever commit the process dies at, the same is undone, once
// and in the same order, by the sagas and by the run.
func TestSagaCrashesEverywhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seats, want string
		undone      []string
		owed        []string
	}{
		{"south", "south <nil>",
			[]string{"book/[north]/on wheels/rent/car", "book/[north]/hotel"},
			[]string{"book/[south]/on wheels/rent/car", "book/[south]/hotel", "insurance"}},
		{"none", " sold out",
			[]string{"book/[north]/on wheels/rent/car", "book/[north]/hotel",
				"book/[south]/on wheels/rent/car", "book/[south]/hotel", "insurance"}, nil},
	} {
		t.Run(c.seats, func(t *testing.T) {
			trip := stet.Define("trip", bookTrip, stet.Retry{First: 1, Jitter: stet.None})
			got, err := stettest.CrashEverywhere(t, trip, c.seats,
				stettest.Checking(func(ctx context.Context, e *stet.Engine, id string) error {
					undone, owed, err := undoneBy(ctx, e, id)
					if err != nil {
						return err
					}
					if !slices.Equal(undone, c.undone) || !slices.Equal(owed, c.owed) {
						return fmt.Errorf("undone were %q, want %q; not undone are %q, want %q", undone, c.undone, owed, c.owed)
					}
					return nil
				}))
			if run := (*stet.RunError)(nil); errors.As(err, &run) {
				err = run.Err
			}
			if text := fmt.Sprint(got, " ", err); text != c.want {
				t.Errorf("the run ends with %q, want %q", text, c.want)
			}
		})
	}
}

// undoneBy returns what a run has undone, in that order, and what it has not, the newest
// first.
func undoneBy(ctx context.Context, e *stet.Engine, id string) (undone, owed []string, err error) {
	entries, err := e.Runs().History(ctx, id, stet.HistoryQuery{})
	slices.SortFunc(entries, func(a, b stet.HistoryEntry) int { return int(a.Number - b.Number) })
	for _, x := range entries {
		place, is := strings.CutSuffix(x.Location, "/undo")
		switch {
		case is && x.State == store.Done:
			undone = append(undone, place)
		case x.Owes && x.State == store.Done && !x.Undone:
			owed = slices.Insert(owed, 0, x.Location)
		}
	}
	return undone, owed, err
}

// TestSagaUndoesWhatItIsToldTo: by its option, by Rollback, or by nothing; the error is the
// code's own in any case, and what is left is the run's.
func TestSagaUndoesWhatItIsToldTo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		err      error
		opts     []stet.SagaOption
		cancel   bool
		atOnce   bool // by the saga
		atTheEnd bool
	}{
		{"failure", errSoldOut, nil, false, true, false},
		{"failure, on cancel only", errSoldOut, []stet.SagaOption{stet.UndoOnCancel}, false, false, true},
		{"rollback", stet.Rollback(errSoldOut), []stet.SagaOption{stet.UndoOnRollback}, false, true, false},
		{"success", nil, nil, false, false, true},
		{"cancel", nil, nil, true, true, false},
		{"cancel, on failure only", nil, []stet.SagaOption{stet.UndoOnFailure, stet.Key("k")}, true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var log []string
				note := func(text string) {
					mu.Lock()
					defer mu.Unlock()
					log = append(log, text)
				}
				w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
					n, err := stet.Saga(ctx, "book", func(ctx stet.Context) (int, error) {
						err := stet.Do(ctx, "hotel", func(context.Context) error { return nil },
							stet.UndoDo(func(context.Context) error { note("undo"); return nil }))
						if err == nil && c.cancel {
							_, err = stet.Message[int]("never").Receive(ctx)
						}
						return 7, errors.Join(err, c.err)
					}, c.opts...)
					if note("saga ends"); n != 7 || !errors.Is(err, c.err) && !errors.Is(err, stet.ErrCancelled) {
						t.Errorf("the saga returns %d, %v", n, err)
					}
					if err == nil {
						err = errSoldOut
					}
					return 0, err
				})
				e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
				r, err := w.Start(testContext(t), e, 0)
				if err != nil {
					t.Fatal(err)
				}
				if c.cancel {
					waitStatus(t, e, r.ID(), store.Suspended)
					if _, err := e.Runs().Cancel(testContext(t), r.ID(), stet.Act{}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := r.Wait(testContext(t)); err == nil {
					t.Error("the run succeeds")
				}
				want := []string{"saga ends"}
				if c.atOnce {
					want = []string{"undo", "saga ends"}
				}
				if c.atTheEnd {
					want = []string{"saga ends", "undo"}
				}
				if !slices.Equal(log, want) {
					t.Errorf("it was %q, want %q", log, want)
				}
				replays(t, e, r.ID())
			})
		})
	}
}

// TestSagaAndOperators: what a saga has undone cannot be cut away alone. A rewind goes to
// before the saga, whose steps are executed again, or behind it.
func TestSagaAndOperators(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		var mu sync.Mutex
		var log []string
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
			do := func(ctx stet.Context, name string) error {
				note := func(text string) error {
					//stetvet:ignore sync the test counts what this process executes
					mu.Lock()
					//stetvet:ignore sync the test counts what this process executes
					defer mu.Unlock()
					log = append(log, text)
					return nil
				}
				return stet.Do(ctx, name, func(context.Context) error { return note("do " + name) },
					stet.UndoDo(func(context.Context) error { return note("undo " + name) }))
			}
			_, err := stet.Saga(ctx, "book", func(ctx stet.Context) (int, error) {
				return 0, errors.Join(do(ctx, "a"), do(ctx, "b"), errSoldOut)
			})
			if !errors.Is(err, errSoldOut) {
				return 0, err
			}
			return 0, do(ctx, "c")
		})
		cfg.Workflows = []stet.Definition{w}
		serve(t, cfg)
		e := client(t, s, w)
		ctx := testContext(t)
		r, err := w.Start(ctx, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := func(list ...string) {
			t.Helper()
			waitStatus(t, e, r.ID(), store.Succeeded)
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(log, list) {
				t.Errorf("it has done %q, want %q", log, list)
			}
			log = nil
		}
		rewind := func(to string) error {
			_, err := e.Runs().Rewind(ctx, r.ID(), to, stet.Act{})
			return err
		}
		want("do a", "do b", "undo b", "undo a", "do c")
		for _, to := range []string{"book/b", "book/a/undo"} {
			err := rewind(to)
			if !errors.Is(err, stet.ErrRefused) || !strings.Contains(err.Error(), "a saga has undone book/a") {
				t.Errorf("a rewind to %s: %v", to, err)
			}
		}
		if err := rewind("c"); err != nil {
			t.Fatal(err)
		}
		want("do c")
		if err := rewind("book"); err != nil {
			t.Fatal(err)
		}
		want("do a", "do b", "undo b", "undo a", "do c")
		replays(t, e, r.ID())
	})
}

// TestContinueAsNewInASaga is misuse: the new incarnation would owe nothing.
func TestContinueAsNewInASaga(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(ctx stet.Context, n int) (int, error) {
		//stetvet:ignore continue the misuse is what is tested
		return stet.Saga(ctx, "book", func(stet.Context) (int, error) { return 0, stet.ContinueAsNew(n + 1) })
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, OnBug: stet.FailOnBug})
	if _, err := run(t, e, w, 0); err == nil || !strings.Contains(err.Error(), "saga book") {
		t.Errorf("the run ends with %v", err)
	}
}
