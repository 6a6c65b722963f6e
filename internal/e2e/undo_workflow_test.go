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
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

var errSoldOut = errors.New("sold out")

// TestUndoHasWhatAStepHas: a key of its own that is the same in each attempt,
// Config.Around, timeouts, heartbeats, and its share of MaxSteps.
func TestUndoHasWhatAStepHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, undoHasWhatAStepHas)
}

func undoHasWhatAStepHas(t *testing.T) {
	var mu sync.Mutex
	var around, keys []string
	var detail string
	note := func(list *[]string, s string) {
		mu.Lock()
		defer mu.Unlock()
		*list = append(*list, s)
	}
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		_, err := stet.Step(ctx, "charge", func(c context.Context) (string, error) {
			note(&keys, stet.IdempotencyKey(c))
			return "ch-1", nil
		}, stet.Undo(func(c context.Context, charge string) error {
			note(&keys, stet.IdempotencyKey(c))
			switch stet.Attempt(c) {
			case 1:
				if err := stet.Heartbeat(c, "half of "+charge); err != nil {
					return err
				}
				<-c.Done() // its timeout
				return context.Cause(c)
			default:
				d, _, err := stet.LastDetail[string](c)
				mu.Lock()
				detail = d
				mu.Unlock()
				return err
			}
		}, stet.Retry{First: time.Millisecond, Timeout: 20 * time.Millisecond}))
		if err != nil {
			return 0, err
		}
		return 0, errSoldOut
	}, stet.Retry{Timeout: time.Hour})
	e := serve(t, stet.Config{
		Workflows: []stet.Definition{w}, MaxSteps: 1,
		Around: func(ctx context.Context, step stet.StepInfo, next func(context.Context) error) error {
			note(&around, fmt.Sprintf("%s %d", step.Location, step.Attempt))
			return next(ctx)
		},
	})
	r, err := w.Start(testContext(t), e, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(testContext(t)); err == nil || !strings.Contains(err.Error(), "sold out") {
		t.Errorf("the run ends with %v", err)
	}
	if want := []string{"charge 1", "charge/undo 1", "charge/undo 2"}; !slices.Equal(around, want) {
		t.Errorf("Around was called for %q, want %q", around, want)
	}
	if len(keys) != 3 || keys[0] == keys[1] || keys[1] != keys[2] || len(keys[1]) != 32 {
		t.Errorf("the keys are %q", keys)
	}
	if detail != "half of ch-1" {
		t.Errorf("the second attempt has the detail %q", detail)
	}
	entries, err := e.Runs().History(testContext(t), r.ID(), stet.HistoryQuery{Values: true})
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	if step, undo := &entries[0], &entries[1]; !step.Owes || undo.Owes || undo.Kind != store.KindUndo ||
		undo.Location != "charge/undo" ||
		undo.Attempts != 2 || undo.State != store.Done || undo.Err() != nil {
		t.Errorf("the history is %+v", entries)
	}
}

// TestUndoOfEveryForm: the value of the step as it was recorded, or none.
func TestUndoOfEveryForm(t *testing.T) {
	t.Parallel()
	type charge struct {
		ID     string
		hidden int
	}
	var undone []string
	note := func(format string, args ...any) error {
		undone = append(undone, fmt.Sprintf(format, args...))
		return nil
	}
	w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
		_, err := stet.Step(ctx, "typed", func(context.Context) (charge, error) { return charge{"ch-1", 7}, nil },
			stet.Undo(func(_ context.Context, c charge) error { return note("typed %+v", c) }))
		if err != nil {
			return 0, err
		}
		_, err = stet.Step(ctx, "nil", func(context.Context) (*charge, error) { return nil, nil },
			stet.Undo(func(_ context.Context, c *charge) error { return note("nil %v", c) }))
		if err != nil {
			return 0, err
		}
		_, err = stet.Step(ctx, "ignored", func(context.Context) (charge, error) { return charge{}, nil },
			stet.UndoDo(func(context.Context) error { return note("ignored") }))
		if err != nil {
			return 0, err
		}
		for _, key := range []string{"a", "b"} {
			if err := stet.Do(ctx, "do", func(context.Context) error { return nil }, stet.Key(key),
				stet.UndoDo(func(c context.Context) error {
					info, _ := stet.StepOf(c)
					return note("do %s", info.Location)
				})); err != nil {
				return 0, err
			}
		}
		return 0, errSoldOut
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	if _, err := run(t, e, w, 0); err == nil {
		t.Error("the run succeeds")
	}
	want := []string{"do do/[b]/undo", "do do/[a]/undo", "ignored", "nil <nil>", "typed {ID:ch-1 hidden:0}"}
	if !slices.Equal(undone, want) {
		t.Errorf("undone were %q, want %q", undone, want)
	}
}

// TestUndoIsChecked: types at the call, functions and options before.
func TestUndoIsChecked(t *testing.T) {
	t.Parallel()
	wrong := stet.Define("wrong", func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil },
			stet.Undo(func(context.Context, string) error { return nil }))
	})
	wrongDo := stet.Define("wrong-do", func(ctx stet.Context, _ int) (int, error) {
		return 0, stet.Do(ctx, "s", func(context.Context) error { return nil },
			stet.Undo(func(context.Context, int) error { return nil }))
	})
	badRetry := stet.Define("bad-retry", func(ctx stet.Context, _ int) (int, error) {
		return 0, stet.Do(ctx, "s", func(context.Context) error { return nil },
			stet.UndoDo(func(context.Context) error { return nil }, stet.Retry{Jitter: 2}))
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{wrong, wrongDo, badRetry}})
	for w, text := range map[*stet.Workflow[int, int]]string{
		wrong:    `step "s": Undo takes a string, the step returns a int`,
		wrongDo:  `step "s": Undo takes a int, the step returns nothing`,
		badRetry: `undo of step "s": Retry.Jitter: expected 0 to 1, or None, found 2`,
	} {
		if _, err := run(t, e, w, 0); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v, want %s", w.Name(), err, text)
		}
	}
	for name, call := range map[string]func(){
		"Undo":   func() { stet.Undo[int](nil) },
		"UndoDo": func() { stet.UndoDo(nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s takes nil", name)
				}
			}()
			call()
		}()
	}
	_, err := stet.New(t.Context(), stet.Config{
		Store: memory.New(), OnFailure: 9,
		Workflows: []stet.Definition{
			stet.Define("a", func(stet.Context, int) (int, error) { return 0, nil }, stet.UndoOn(8)),
			stet.Define("b", func(stet.Context, int) (int, error) { return 0, nil }, stet.OnFailure(9)),
			stet.Define("c", func(stet.Context, int) (int, error) { return 0, nil }, stet.OnBug(9)),
		},
	})
	for _, text := range []string{"OnFailure: expected", `workflow "a": UndoOn: expected a value that has a name, found 8`,
		`workflow "b": OnFailure: expected a value that has a name, found 9`,
		`workflow "c": OnBug: expected a value that has a name, found 9`} {
		if !errors.Is(err, stet.ErrInvalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("New: %v, want %s", err, text)
		}
	}
}

// TestRollbackIsTheErrorItWraps for a caller of Wait, alone and wrapped; of nil it is nil.
func TestRollbackIsTheErrorItWraps(t *testing.T) {
	t.Parallel()
	if stet.Rollback(nil) != nil {
		t.Error("Rollback(nil) is an error")
	}
	if err := stet.Rollback(errSoldOut); !errors.Is(err, errSoldOut) || err.Error() != "sold out" {
		t.Errorf("got %v", err)
	}
	undone := 0
	w := stet.Define("w", func(ctx stet.Context, how string) (string, error) {
		err := stet.Do(ctx, "s", func(context.Context) error { return nil },
			stet.UndoDo(func(context.Context) error { undone++; return nil }))
		if err != nil {
			return "", err
		}
		switch how {
		case "alone":
			err = stet.Rollback(errSoldOut)
		case "wrapped":
			err = fmt.Errorf("checkout: %w", stet.Rollback(errSoldOut))
		case "joined":
			err = errors.Join(errors.New("other"), stet.Rollback(errSoldOut))
		case "branch":
			_, err = stet.Go(ctx, "b", func(stet.Context) (int, error) { return 0, stet.Rollback(errSoldOut) }).Await(ctx)
		case "plain":
			err = errSoldOut
		case "nothing":
			err = stet.Rollback(nil)
		}
		return "fine", err
	}, stet.UndoOnRollback)
	e := serve(t, stet.Config{Workflows: []stet.Definition{w},
		Errors: []stet.ErrorCode{stet.Sentinel("sold_out", errSoldOut)}})
	for how, want := range map[string]int{"alone": 1, "wrapped": 1, "joined": 1, "branch": 1, "plain": 0, "nothing": 0} {
		undone = 0
		out, err := run(t, e, w, how)
		if undone != want {
			t.Errorf("%s: %d were undone, want %d", how, undone, want)
		}
		if how == "nothing" {
			if out != "fine" || err != nil {
				t.Errorf("%s: got %q, %v", how, out, err)
			}
		} else if !errors.Is(err, errSoldOut) {
			t.Errorf("%s: got %v", how, err)
		}
	}
}

// TestUndoGoesOnAfterAPerson: a compensation that fails for good stalls the run; resume tries it again; a cancel is
// refused before and after; terminate lists the pending compensations.
func TestUndoGoesOnAfterAPerson(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		var mu sync.Mutex
		fixed, undone := false, 0
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
			for _, name := range []string{"a", "b", "c"} {
				err := stet.Do(ctx, name, func(context.Context) error { return nil }, stet.UndoDo(func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					if name == "b" && !fixed {
						return errors.New("bank is closed")
					}
					undone++
					return nil
				}, stet.Retry{Attempts: 2, First: time.Millisecond}))
				if err != nil {
					return 0, err
				}
			}
			return 0, errSoldOut
		})
		cfg.Workflows = []stet.Definition{w}
		serve(t, cfg)
		e := client(t, s, w)
		ctx := testContext(t)
		stalled := func(id string) *stet.Run[int] {
			r, err := w.Start(ctx, e, 0, stet.ID(id))
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Wait(ctx)
			if !errors.Is(err, stet.ErrStalled) ||
				!strings.Contains(err.Error(), "undo: b/undo failed: bank is closed; fix the cause and resume the run") {
				t.Fatalf("the run ends with %v", err)
			}
			if info, err := r.Info(ctx); err != nil || info.Marks != store.Undoing {
				t.Errorf("the run has the marks %q, %v", info.Marks, err)
			}
			if ok, err := r.Cancel(ctx, stet.Act{}); ok || !errors.Is(err, stet.ErrRefused) ||
				!strings.Contains(err.Error(), "undoing has begun") {
				t.Errorf("a cancel is answered by %t, %v", ok, err)
			}
			return r
		}
		r := stalled("r")
		if ok, err := e.Runs().Resume(ctx, r.ID(), stet.Act{}); !ok {
			t.Errorf("resume is answered by %t, %v", ok, err)
		}
		waitStatus(t, e, r.ID(), store.Stalled) // tried again, in vain
		entries, err := e.Runs().History(ctx, r.ID(), stet.HistoryQuery{Values: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if entry.Location == "b/undo" && (entry.Attempts != 2 && entry.Attempts != 4 || entry.Err() == nil) {
				t.Errorf("b/undo has %d attempts, %v", entry.Attempts, entry.Err())
			}
		}
		other := stalled("other")
		if ok, err := e.Runs().Terminate(ctx, other.ID(), stet.Act{Why: "by hand"}); !ok {
			t.Errorf("terminate is answered by %t, %v", ok, err)
		}
		var failed *stet.RunError
		if _, err := other.Wait(ctx); !errors.As(err, &failed) || !slices.Equal(failed.Owed, []string{"b", "a"}) ||
			failed.Reason != "terminated: by hand" {
			t.Errorf("the terminated run ends with %+v", failed)
		}
		mu.Lock()
		fixed = true
		mu.Unlock()
		for { // the verdict on the resume may come before the stall
			if ok, err := e.Runs().Resume(ctx, r.ID(), stet.Act{}); ok || errors.Is(err, stet.ErrTerminal) {
				break
			}
		}
		for {
			if _, err := r.Wait(ctx); errors.As(err, &failed) && failed.Status == store.Failed {
				break
			} else if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if undone != 4 {
			t.Errorf("%d compensations have succeeded, want a and b and c of one run and c of the other", undone)
		}
	})
}

// TestTerminateListsWhatIsOwed of a run in memory and of one that is not; and so
// does the cancel of a run that cannot be replayed. Nothing is undone.
func TestTerminateListsWhatIsOwed(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		var mu sync.Mutex
		name := "first"
		undo := stet.UndoDo(func(context.Context) error { t.Error("a compensation is executed"); return nil })
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
			//stetvet:ignore sync the test counts what this process executes
			mu.Lock()
			first := name
			//stetvet:ignore sync the test counts what this process executes
			mu.Unlock()
			for _, name := range []string{first, "second"} {
				if err := stet.Do(ctx, name, func(context.Context) error { return nil }, undo); err != nil {
					return 0, err
				}
			}
			_, err := word.Receive(ctx)
			return 0, err
		})
		cfg.Workflows, cfg.MaxParkedBytes = []stet.Definition{w}, stet.None
		serve(t, cfg)
		e := client(t, s, w)
		ctx := testContext(t)
		start := func(id string) *stet.Run[int] {
			r, err := w.Start(ctx, e, 0, stet.ID(id))
			if err != nil {
				t.Fatal(err)
			}
			waitStatus(t, e, id, store.Suspended)
			return r
		}
		ends := func(r *stet.Run[int], reason string) {
			var failed *stet.RunError
			_, err := r.Wait(ctx)
			if !errors.As(err, &failed) || !errors.Is(err, stet.ErrCancelled) || failed.Reason != reason ||
				!slices.Equal(failed.Owed, []string{"second", "first"}) {
				t.Errorf("run %s ends with %v", r.ID(), err)
			}
			if err == nil || !strings.Contains(err.Error(), "not undone: second, first") {
				t.Errorf("run %s ends with %v", r.ID(), err)
			}
		}
		terminated, changed := start("terminated"), start("changed")
		if ok, err := e.Runs().Terminate(ctx, terminated.ID(), stet.Act{}); !ok {
			t.Errorf("terminate is answered by %t, %v", ok, err)
		}
		ends(terminated, "terminated")

		mu.Lock()
		name = "renamed"
		mu.Unlock()
		if err := word.Send(ctx, e, changed.ID(), "go"); err != nil {
			t.Fatal(err)
		}
		waitStatus(t, e, changed.ID(), store.Stalled)
		if ok, err := changed.Cancel(ctx, stet.Act{Why: "cannot be fixed"}); !ok {
			t.Errorf("the cancel is answered by %t, %v", ok, err)
		}
		ends(changed, "cancelled: cannot be fixed")
	})
}

// TestStallOnFailure lets a failing run wait for a person: by the engine's default or the workflow's option, which
// wins.
func TestStallOnFailure(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	fails, undone := true, 0
	code := func(ctx stet.Context, _ int) (string, error) {
		err := stet.Do(ctx, "s", func(context.Context) error { return nil },
			stet.UndoDo(func(context.Context) error { undone++; return nil }))
		//stetvet:ignore sync the test counts what this process executes
		mu.Lock()
		//stetvet:ignore sync the test counts what this process executes
		defer mu.Unlock()
		if err == nil && fails {
			err = fmt.Errorf("today: %w", errSoldOut)
		}
		return "fine", err
	}
	careful := stet.Define("careful", code)
	ends := stet.Define("ends", code, stet.EndOnFailure)
	cfg := stet.Config{Workflows: []stet.Definition{careful, ends}, OnFailure: stet.StallOnFailure,
		Errors: []stet.ErrorCode{stet.Sentinel("sold_out", errSoldOut)}}
	e := serve(t, cfg)
	ctx := testContext(t)
	r, err := careful.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Wait(ctx)
	if !errors.Is(err, stet.ErrStalled) || !errors.Is(err, errSoldOut) ||
		!strings.Contains(err.Error(), "failure: today: sold out") {
		t.Errorf("the run ends with %v", err)
	}
	if undone != 0 {
		t.Error("a run that stalls was undone")
	}
	var failed *stet.RunError
	if _, err := run(t, e, ends, 0); !errors.As(err, &failed) || failed.Status != store.Failed || undone != 1 {
		t.Errorf("the other workflow's run ends with %v; %d undone", err, undone)
	}
	mu.Lock()
	fails = false
	mu.Unlock()
	if ok, err := e.Runs().Resume(ctx, r.ID(), stet.Act{}); !ok {
		t.Fatal(err)
	}
	for {
		out, err := r.Wait(ctx)
		if out == "fine" && err == nil {
			return
		}
		if !errors.Is(err, stet.ErrStalled) {
			t.Fatalf("after the resume the run ends with %q, %v", out, err)
		}
	}
}

// TestCancelOfStalledFailure ends the run, which has an output on record, with the
// debts in it.
func TestCancelOfStalledFailure(t *testing.T) {
	t.Parallel()
	for _, owes := range []bool{false, true} {
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
			var opts []stet.StepOption
			if owes {
				opts = append(opts, stet.UndoDo(func(context.Context) error { t.Error("undone"); return nil }))
			}
			if err := stet.Do(ctx, "s", func(context.Context) error { return nil }, opts...); err != nil {
				return 0, err
			}
			return 0, errSoldOut
		}, stet.StallOnFailure)
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
		ctx := testContext(t)
		r, err := w.Start(ctx, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		waitStatus(t, e, r.ID(), store.Stalled)
		if ok, err := r.Cancel(ctx, stet.Act{Why: "no"}); !ok {
			t.Fatal(err)
		}
		var failed *stet.RunError
		if _, err := r.Wait(ctx); !errors.As(err, &failed) || failed.Status != store.Cancelled ||
			(len(failed.Owed) == 1) != owes {
			t.Errorf("the run ends with %v", err)
		}
	}
}

// TestCancelAgainstUndoing puts a cancel in while the begin of undoing is being
// committed: before the commit it wins, after it it is refused, and the verdict and
// the run's end agree. The step is undone either way, once.
func TestCancelAgainstUndoing(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprint("after ", after), func(t *testing.T) {
			forEachStore(t, func(t *testing.T, cfg stet.Config, g *gated, s store.Store) {
				var mu sync.Mutex
				undone := 0
				w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
					err := stet.Do(ctx, "s", func(context.Context) error { return nil }, stet.UndoDo(func(context.Context) error {
						mu.Lock()
						defer mu.Unlock()
						undone++
						return nil
					}))
					if err != nil {
						return 0, err
					}
					return 0, errSoldOut
				})
				e := client(t, s, w)
				ctx := testContext(t)
				var once sync.Once
				begins := func(b *store.Batch) bool {
					return slices.ContainsFunc(b.Turns,
						func(t *store.Turn) bool { return t.Update != nil && t.Update.Marks&store.Undoing != 0 })
				}
				put := func(b *store.Batch) {
					if !begins(b) {
						return
					}
					once.Do(func() {
						item := &store.Item{Kind: store.ItemCancel, Name: "client", ID: "c", Origin: "c", Value: []byte("now")}
						if _, _, err := s.Apply(ctx, []store.Command{{RunID: "r", Item: item}}); err != nil {
							t.Error(err)
						}
					})
				}
				if after {
					g.afterCommit = put
				} else {
					g.beforeCommit = put
				}
				cfg.Workflows = []stet.Definition{w}
				serve(t, cfg)
				r, err := w.Start(ctx, e, 0, stet.ID("r"))
				if err != nil {
					t.Fatal(err)
				}
				_, err = r.Wait(ctx)
				var failed *stet.RunError
				if !errors.As(err, &failed) {
					t.Fatal(err)
				}
				want := store.Cancelled
				if after {
					want = store.Failed
				}
				if failed.Status != want || len(failed.Owed) > 0 {
					t.Errorf("the run ends with %v, want it %s", err, want)
				}
				info, err := r.Info(ctx)
				if err != nil {
					t.Fatal(err)
				}
				items, err := s.Inbox(ctx, info.Number, "c")
				for err == nil && len(items) == 1 && items[0].Verdict == nil && ctx.Err() == nil {
					items, err = s.Inbox(ctx, info.Number, "c")
				}
				if err != nil || len(items) != 1 || items[0].Verdict == nil {
					t.Fatal(items, err)
				}
				if yes := items[0].Verdict[0] == 'y'; yes == after {
					t.Errorf("the answer is %q", items[0].Verdict)
				}
				mu.Lock()
				defer mu.Unlock()
				if undone != 1 {
					t.Errorf("the step was undone %d times", undone)
				}
			})
		})
	}
}

// TestLateSuccessAgainstRollback cancels a branch whose step has not begun, has begun, and has ended in its body,
// before a rollback: exactly the effects that took place are undone.
func TestLateSuccessAgainstRollback(t *testing.T) {
	t.Parallel()
	const tries = 40
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			done, undone := map[string]int{}, map[string]int{}
			w := stet.Define("w", func(ctx stet.Context, n int) (int, error) {
				reserve := stet.Go(ctx, "slow", func(ctx stet.Context) (int, error) {
					return stet.Step(ctx, "reserve", func(c context.Context) (int, error) {
						for range n % 7 {
							if c.Err() != nil && n%2 == 0 {
								return 0, c.Err() // it stops before it has had an effect
							}
							time.Sleep(time.Duration(n%5) * 10 * time.Microsecond)
						}
						info, _ := stet.StepOf(c)
						mu.Lock()
						defer mu.Unlock()
						done[info.RunID]++
						return n, nil
					}, stet.Undo(func(c context.Context, got int) error {
						info, _ := stet.StepOf(c)
						mu.Lock()
						defer mu.Unlock()
						undone[info.RunID]++
						if got != n {
							return stet.Permanent(fmt.Errorf("got %d, want %d", got, n))
						}
						return nil
					}))
				})
				quick := stet.Go(ctx, "quick", func(ctx stet.Context) (int, error) {
					return stet.Step(ctx, "s", func(context.Context) (int, error) {
						time.Sleep(time.Duration(n%3) * 20 * time.Microsecond)
						return 0, nil
					})
				})
				if _, _, err := stet.Race(ctx, reserve, quick); err != nil {
					return 0, err
				}
				return 0, stet.Rollback(errSoldOut)
			})
			cfg := stet.Config{Workflows: []stet.Definition{w}}
			if busy {
				cfg.MaxSteps = 3 // so that some have to wait for room, and are cancelled there
			}
			e := serve(t, cfg)
			ctx := testContext(t)
			var runs []*stet.Run[int]
			for n := range tries {
				r, err := w.Start(ctx, e, n, stet.ID(fmt.Sprint("r", n)))
				if err != nil {
					t.Fatal(err)
				}
				runs = append(runs, r)
			}
			for _, r := range runs {
				var failed *stet.RunError
				if _, err := r.Wait(ctx); !errors.As(err, &failed) || failed.Status != store.Failed {
					t.Fatalf("run %s ends with %v", r.ID(), err)
				}
				mu.Lock()
				if done[r.ID()] != undone[r.ID()] {
					t.Errorf("run %s: %d effects, %d undone", r.ID(), done[r.ID()], undone[r.ID()])
				}
				mu.Unlock()
			}
		})
	}
}

// TestUndoSleepsBetweenAttempts: a long delay between the attempts of a
// compensation suspends the run, which shows the mark and what it waits for, and
// survives an eviction; the policies of the run do not cancel it meanwhile.
func TestUndoSleepsBetweenAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
			err := stet.Do(ctx, "s", func(context.Context) error { return nil }, stet.UndoDo(func(c context.Context) error {
				if stet.Attempt(c) < 3 {
					return errors.New("bank is closed")
				}
				return nil
			}, stet.Retry{First: 24 * time.Hour, Max: 24 * time.Hour, Jitter: stet.None}))
			if err != nil {
				return 0, err
			}
			return 0, errSoldOut
		}, stet.MaxRunTime(time.Hour), stet.MaxSuspension(time.Hour))
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}, MaxParkedBytes: stet.None})
		ctx, cancel := context.WithTimeout(context.Background(), 100*24*time.Hour)
		defer cancel()
		began := time.Now()
		r, err := w.Start(ctx, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		info, err := r.Info(ctx)
		if err != nil || info.Status != store.Suspended || info.Marks != store.Undoing || len(info.WaitsFor) != 1 ||
			info.WaitsFor[0].Kind != "undo" || info.WaitsFor[0].Location != "s/undo" || info.WaitsFor[0].Until.IsZero() {
			t.Errorf("after an hour the run stands as %+v, %v", info, err)
		}
		var failed *stet.RunError
		if _, err := r.Wait(ctx); !errors.As(err, &failed) || failed.Status != store.Failed {
			t.Errorf("the run ends with %v", err)
		}
		if took := time.Since(began); took < 48*time.Hour || took > 49*time.Hour {
			t.Errorf("it took %s", took)
		}
	})
}
