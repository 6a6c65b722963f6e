package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

var (
	errRefusedCard = errors.New("declined")
	goOn           = stet.Message[string]("go on")

	// square is a child that computes.
	square = stet.Define("square", func(ctx stet.Context, n int) (int, error) {
		return stet.Step(ctx, "square", func(context.Context) (int, error) { return n * n, nil })
	})
	// told is a child that ends when it gets a message.
	told = stet.Define("told", func(ctx stet.Context, _ string) (string, error) { return goOn.Receive(ctx) })
	// declining is a child that fails.
	declining = stet.Define("declining", func(ctx stet.Context, _ string) (string, error) {
		return "", fmt.Errorf("card: %w", errRefusedCard)
	})
)

// family is a config with the children above and one workflow more.
func family(parent stet.Definition) stet.Config {
	return stet.Config{
		Workflows: []stet.Definition{parent, square, told, declining},
		Errors:    []stet.ErrorCode{stet.Sentinel("declined", errRefusedCard)},
		Retry:     stet.Retry{Attempts: 1},
	}
}

// parent starts a run of code that has no input, on an engine that knows the
// children above.
func parent[Out any](t *testing.T, code func(stet.Context) (Out, error)) (*stet.Engine, *stet.Run[Out]) {
	t.Helper()
	w := stet.Define("parent", func(ctx stet.Context, _ int) (Out, error) { return code(ctx) })
	e := serve(t, family(w))
	r, err := w.Start(testContext(t), e, 0, stet.ID("the-parent"))
	if err != nil {
		t.Fatal(err)
	}
	return e, r
}

// children returns the children of a run, oldest first.
func children(t testing.TB, e *stet.Engine, id string) []store.Run {
	t.Helper()
	info, err := e.Runs().Info(testContext(t), id)
	if err != nil {
		t.Fatal(err)
	}
	page, err := e.Store().List(testContext(t), store.Filter{Parent: info.Number, Values: true, Limit: store.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(page.Runs)
	return page.Runs
}

func TestCallReturnsTheChildsResult(t *testing.T) {
	t.Parallel()
	e, r := parent(t, func(ctx stet.Context) (int, error) { return square.Call(ctx, 7) })
	if got, err := r.Wait(testContext(t)); err != nil || got != 49 {
		t.Fatalf("got %d, %v; want 49", got, err)
	}
	runs := children(t, e, r.ID())
	if len(runs) != 1 || runs[0].Workflow != "square" || runs[0].Status != store.Succeeded {
		t.Fatalf("the children are %+v", runs)
	}
}

// TestChildrenHaveTagsAndHeaders: a child begins with the tags and headers that its parent gives it, over the headers
// that it inherits, on every store; bad ones start nothing.
func TestChildrenHaveTagsAndHeaders(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			shows := stet.Define("shows", func(ctx stet.Context, _ int) (string, error) {
				return stet.Header(ctx, "tenant") + " " + stet.Header(ctx, "from"), nil
			})
			w := stet.Define("parent", func(ctx stet.Context, _ int) ([]string, error) {
				_, err := shows.Go(ctx, 0, stet.Named("bad"), stet.Tags{"no key": "x"})
				if !errors.Is(err, stet.ErrInvalid) {
					return nil, fmt.Errorf("bad tags: %w", err)
				}
				if _, err := shows.Go(ctx, 0, stet.Named("worse"), stet.Headers{"": "x"}); !errors.Is(err, stet.ErrInvalid) {
					return nil, fmt.Errorf("bad headers: %w", err)
				}
				own, err := shows.Call(ctx, 0, stet.Key("own"), stet.Tags{"file": "a", "kind": "child"},
					stet.Headers{"tenant": "bob"})
				if err != nil {
					return nil, err
				}
				inherited, err := shows.Call(ctx, 0, stet.Key("inherited"))
				return []string{own, inherited}, err
			})
			e := serve(t, stet.Config{Store: s.open(t)(), Workflows: []stet.Definition{w, shows}})
			r, err := w.Start(testContext(t), e, 0, stet.Headers{"tenant": "ada", "from": "web"})
			ok(t, err)
			if got, want := outcome(t, r), "[bob web ada web]"; got != want {
				t.Errorf("the headers are %q", got)
			}
			found, _, err := e.Runs().List(testContext(t), store.Filter{Tags: []store.Pair{{Key: "file", Value: "a"}}})
			ok(t, err)
			if len(found) != 1 || found[0].Workflow != "shows" || len(children(t, e, r.ID())) != 2 {
				t.Errorf("with the tag are %+v", found)
			}
		})
	}
}

func TestChildrenAreAwaitedInAnyOrder(t *testing.T) {
	t.Parallel()
	e, r := parent(t, func(ctx stet.Context) (string, error) {
		var others []*stet.RunFuture[string]
		for i := range 3 {
			o, err := told.Go(ctx, "", stet.Key(fmt.Sprint(i)))
			if err != nil {
				return "", err
			}
			others = append(others, o)
		}
		var texts []string
		for _, o := range slices.Backward(others) {
			text, err := o.Await(ctx)
			if err != nil {
				return "", err
			}
			texts = append(texts, text)
		}
		return strings.Join(texts, ", "), nil
	})
	waitStatus(t, e, r.ID(), store.Suspended)
	for i, child := range children(t, e, r.ID()) {
		if err := goOn.Send(testContext(t), e, child.ID, fmt.Sprint("told ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := r.Wait(testContext(t)); err != nil || got != "told 2, told 1, told 0" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestChildsFailureIsTypedAtTheAwait(t *testing.T) {
	t.Parallel()
	e, r := parent(t, func(ctx stet.Context) (string, error) {
		_, err := declining.Call(ctx, "")
		var failed *stet.RunError
		switch {
		case !errors.As(err, &failed) || failed.Status != store.Failed:
			return "", fmt.Errorf("the error is %#v", err)
		case !errors.Is(err, errRefusedCard):
			return "", fmt.Errorf("the child's own error is not found in %#v", err)
		}
		return failed.RunID, nil
	})
	got, err := r.Wait(testContext(t))
	if err != nil || got != children(t, e, r.ID())[0].ID {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestChildsFailureReturnedByTheParentKeepsItsKind(t *testing.T) {
	t.Parallel()
	_, r := parent(t, func(ctx stet.Context) (string, error) { return declining.Call(ctx, "") })
	_, err := r.Wait(testContext(t))
	var failed *stet.RunError
	if !errors.As(err, &failed) || failed.RunID != "the-parent" || !errors.As(failed.Err, &failed) ||
		failed.RunID == "the-parent" || !errors.Is(err, errRefusedCard) {
		t.Fatalf("the error is %v (%#v)", err, err)
	}
}

func TestChildThatIsTerminatedFailsTheAwait(t *testing.T) {
	t.Parallel()
	e, r := parent(t, func(ctx stet.Context) (string, error) { return told.Call(ctx, "") })
	waitStatus(t, e, r.ID(), store.Suspended)
	child := children(t, e, r.ID())[0]
	if ok, err := e.Runs().Terminate(testContext(t), child.ID, stet.Act{Why: "enough"}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	_, err := r.Wait(testContext(t))
	var failed *stet.RunError
	if !errors.As(err, &failed) || !errors.As(failed.Err, &failed) || failed.RunID != child.ID ||
		failed.Status != store.Cancelled || failed.Reason != "terminated: enough" || !errors.Is(err, stet.ErrCancelled) {
		t.Fatalf("the error is %v (%#v)", err, err)
	}
}

func TestUnknownWorkflowOfAChildIsRefused(t *testing.T) {
	t.Parallel()
	nobody := stet.Ref[int, int]("nobody has it")
	e, r := parent(t, func(ctx stet.Context) (string, error) {
		_, err := nobody.Go(ctx, 1)
		_, err2 := nobody.Detach(ctx, 1, stet.Named("detached"))
		return fmt.Sprint(errors.Is(err, stet.ErrUnknownWorkflow), errors.Is(err2, stet.ErrUnknownWorkflow)), nil
	})
	if got, err := r.Wait(testContext(t)); err != nil || got != "true true" {
		t.Fatalf("got %q, %v", got, err)
	}
	if runs := children(t, e, r.ID()); len(runs) != 0 {
		t.Errorf("children: %+v", runs)
	}
}

func TestChildrenEndWithTheFunctionThatStartedThem(t *testing.T) {
	t.Parallel()
	e, r := parent(t, func(ctx stet.Context) (string, error) {
		inner := stet.Go(ctx, "inner", func(ctx stet.Context) (string, error) {
			o, err := told.Go(ctx, "") // not awaited
			if err != nil {
				return "", err
			}
			return o.RunID(ctx), stet.Sleep(ctx, "until it has begun", time.Millisecond)
		})
		id, err := inner.Await(ctx)
		if err != nil {
			return "", err
		}
		if _, err := told.Go(ctx, "", stet.Named("left"), stet.LeaveChild); err != nil {
			return "", err
		}
		if _, err := told.Go(stet.WithoutCancel(ctx), "", stet.Named("shielded")); err != nil {
			return "", err
		}
		_, err = stet.Await[string](ctx, "inner's end", id)
		return fmt.Sprint(errors.Is(err, stet.ErrCancelled)), nil
	})
	if got, err := r.Wait(testContext(t)); err != nil || got != "true" {
		t.Fatalf("got %q, %v; want the child to be cancelled with its branch", got, err)
	}
	runs := children(t, e, r.ID())
	if len(runs) != 3 || runs[0].Reason != "cancelled: its parent does not wait for it any more" {
		t.Fatalf("the children are %+v", runs)
	}
	for _, left := range runs[1:] {
		waitStatus(t, e, left.ID, store.Suspended)
	}
}

func TestCancelOfTheParentCancelsItsChildren(t *testing.T) {
	t.Parallel()
	e, r := parent(t, func(ctx stet.Context) (string, error) {
		if _, err := told.Detach(ctx, "", stet.Named("detached")); err != nil {
			return "", err
		}
		return told.Call(ctx, "")
	})
	waitStatus(t, e, r.ID(), store.Suspended)
	if ok, err := r.Cancel(testContext(t), stet.Act{Why: "no need"}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	runs := children(t, e, r.ID())
	waitStatus(t, e, runs[1].ID, store.Cancelled)
	waitStatus(t, e, runs[0].ID, store.Suspended)
	waitStatus(t, e, r.ID(), store.Cancelled)
}

func TestTerminateOfTheParentCancelsItsChildren(t *testing.T) {
	t.Parallel()
	for _, inMemory := range []bool{true, false} {
		t.Run(fmt.Sprint("in memory ", inMemory), func(t *testing.T) {
			w := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
				o, err := told.Go(ctx, "")
				if err != nil {
					return "", err
				}
				if _, err := told.Go(ctx, "", stet.Named("left"), stet.LeaveChild); err != nil {
					return "", err
				}
				return o.Await(ctx)
			})
			cfg := family(w)
			if !inMemory {
				cfg.MaxParkedBytes = stet.None
			}
			e := serve(t, cfg)
			r, err := w.Start(testContext(t), e, 0)
			if err != nil {
				t.Fatal(err)
			}
			waitStatus(t, e, r.ID(), store.Suspended)
			if ok, err := e.Runs().Terminate(testContext(t), r.ID(), stet.Act{}); !ok || err != nil {
				t.Fatal(ok, err)
			}
			runs := children(t, e, r.ID())
			waitStatus(t, e, runs[0].ID, store.Cancelled)
			waitStatus(t, e, runs[1].ID, store.Suspended)
		})
	}
}

func TestDetachedChildIsIndependent(t *testing.T) {
	t.Parallel()
	e, r := parent(t, func(ctx stet.Context) (string, error) { return told.Detach(ctx, "") })
	id, err := r.Wait(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, id, store.Suspended)
	if err := goOn.Send(testContext(t), e, id, "done"); err != nil {
		t.Fatal(err)
	}
	if got, err := told.Handle(e, id).Wait(testContext(t)); err != nil || got != "done" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestAwaitAnyRunByItsID(t *testing.T) {
	t.Parallel()
	w := stet.Define("parent", func(ctx stet.Context, id string) (string, error) {
		return stet.Await[string](ctx, "the other", id)
	})
	e := serve(t, family(w))
	ctx := testContext(t)
	start := func(id string) *stet.Run[string] {
		r, err := w.Start(ctx, e, id)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if _, err := told.Start(ctx, e, "", stet.ID("other")); err != nil {
		t.Fatal(err)
	}
	before := []*stet.Run[string]{start("other"), start("other")}
	waitStatus(t, e, before[0].ID(), store.Suspended)
	waitStatus(t, e, before[1].ID(), store.Suspended)
	if info, err := e.Runs().Info(ctx, before[0].ID()); err != nil || len(info.WaitsFor) != 1 ||
		info.WaitsFor[0].Kind != "run" || info.WaitsFor[0].Run != "other" {
		t.Errorf("it waits for %+v (%v)", info.WaitsFor, err)
	}
	if err := goOn.Send(ctx, e, "other", "the end"); err != nil {
		t.Fatal(err)
	}
	for _, r := range append(before, start("other")) {
		if got, err := r.Wait(ctx); err != nil || got != "the end" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if _, err := start("nobody").Wait(ctx); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("the end of a run that does not exist: %v", err)
	}
	if _, err := start("bad\nid").Wait(ctx); !errors.Is(err, stet.ErrInvalid) &&
		!strings.Contains(err.Error(), "invalid") {
		t.Errorf("the end of a run that cannot exist: %v", err)
	}
	r, err := w.Start(ctx, e, "me", stet.ID("me"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(ctx); err == nil || !strings.Contains(err.Error(), "cannot await its own end") {
		t.Errorf("a run that awaits itself: %v", err)
	}
}

// waitsFor blocks until a run waits for one thing, of the kind.
func waitsFor(t *testing.T, e *stet.Engine, id, kind string) {
	t.Helper()
	untilRun(t, e, id, func(info *stet.RunInfo) bool {
		return len(info.WaitsFor) == 1 && info.WaitsFor[0].Kind == kind
	})
}

func TestSelectOverEverything(t *testing.T) {
	t.Parallel()
	type outcome struct {
		Won  int
		Text string
	}
	tokens := make(chan string, 1)
	w := stet.Define("parent", func(ctx stet.Context, other string) (outcome, error) {
		child, err := told.Go(ctx, "")
		if err != nil {
			return outcome{}, err
		}
		watched, err := stet.Watch[string](ctx, "watched", other)
		if err != nil {
			return outcome{}, err
		}
		promise, err := stet.NewPromise[string](ctx, "promise")
		if err != nil {
			return outcome{}, err
		}
		handOut := func(context.Context) error { tokens <- promise.Token(); return nil }
		if err := stet.Do(ctx, "hand out", handOut); err != nil {
			return outcome{}, err
		}
		var message string
		won, err := stet.Select(ctx, child.Case(), watched.Case(), promise.Case(), goOn.Case(&message),
			stet.AfterDelay("deadline", time.Hour))
		if err != nil {
			return outcome{}, err
		}
		text := ""
		switch won {
		case 0:
			text, err = child.Await(ctx)
		case 1:
			text, err = watched.Await(ctx)
		case 2:
			text, err = promise.Await(ctx)
		case 3:
			text = message
		}
		// What did not win is not lost.
		if won != 0 && err == nil {
			var more string
			more, err = child.Await(ctx)
			text += ", then " + more
		}
		return outcome{won, text}, err
	})
	for won := range 4 {
		t.Run(fmt.Sprint("case ", won), func(t *testing.T) {
			e := serve(t, family(w))
			ctx := testContext(t)
			if _, err := told.Start(ctx, e, "", stet.ID("other")); err != nil {
				t.Fatal(err)
			}
			r, err := w.Start(ctx, e, "other", stet.ID("the-parent"))
			if err != nil {
				t.Fatal(err)
			}
			token := <-tokens
			waitStatus(t, e, r.ID(), store.Suspended)
			child := children(t, e, r.ID())[0].ID
			want := outcome{won, "won, then later"}
			switch won {
			case 0:
				want.Text = "won"
				err = goOn.Send(ctx, e, child, "won")
			case 1:
				err = goOn.Send(ctx, e, "other", "won")
			case 2:
				err = e.Resolve(ctx, token, "won")
			case 3:
				err = goOn.Send(ctx, e, r.ID(), "won")
			}
			if err != nil {
				t.Fatal(err)
			}
			if won != 0 {
				waitsFor(t, e, r.ID(), "child")
				if err := goOn.Send(ctx, e, child, "later"); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := r.Wait(ctx); err != nil || got != want {
				t.Fatalf("got %+v, %v; want %+v", got, err, want)
			}
		})
	}
}

// TestNoLaterIncarnationMeetsAFormerChild: a run that continues as new starts children of its own at the same places,
// and gets no ends of the former ones.
func TestNoLaterIncarnationMeetsAFormerChild(t *testing.T) {
	t.Parallel()
	w := stet.Define("parent", func(ctx stet.Context, n int) (string, error) {
		o, err := told.Go(ctx, fmt.Sprint(n), stet.LeaveChild)
		if err != nil {
			return "", err
		}
		if n == 0 {
			if err := stet.Sleep(ctx, "until it has begun", time.Millisecond); err != nil {
				return "", err
			}
			return "", stet.ContinueAsNew(1)
		}
		return o.Await(ctx)
	})
	e := serve(t, family(w))
	ctx := testContext(t)
	r, err := w.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	var runs []store.Run
	for len(runs) < 2 {
		runs = children(t, e, r.ID())
	}
	for i, text := range []string{"of the former", "of the present"} {
		if err := goOn.Send(ctx, e, runs[i].ID, text); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if _, err := told.Handle(e, runs[0].ID).Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, err := r.Wait(ctx); err != nil || got != "of the present" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestTheEndOfAFormerChildIsADeadLetter, whether the child was cancelled with its
// incarnation or left, unless the workflow discards such. It does not end the wait
// of the present incarnation.
func TestTheEndOfAFormerChildIsADeadLetter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts []stet.DefineOption
		want int
	}{"kept": {nil, 2}, "discarded": {[]stet.DefineOption{stet.DiscardDeadLetters()}, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := stet.Define("parent", func(ctx stet.Context, n int) (string, error) {
					o, err := told.Go(ctx, fmt.Sprint(n), stet.LeaveChild)
					if err != nil {
						return "", err
					}
					if _, err := told.Go(ctx, "", stet.Named("cancelled")); err != nil {
						return "", err
					}
					if err := stet.Sleep(ctx, "until they have begun", time.Second); err != nil || n == 0 {
						return "", errors.Join(err, stet.ContinueAsNew(1))
					}
					return o.Await(ctx)
				}, c.opts...)
				e := serve(t, family(w))
				r := begin(t, e, w, 0)
				time.Sleep(10 * time.Second)
				runs := children(t, e, r.ID())
				if len(runs) != 4 || runs[1].Status != store.Cancelled {
					t.Fatalf("the children are %+v", runs)
				}
				if err := goOn.Send(t.Context(), e, runs[0].ID, "former"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				dead := letters(t, e, store.DeadFilter{RunIDs: []string{r.ID()}})
				if len(dead) != c.want {
					t.Errorf("the dead letters are %+v", dead)
				}
				for _, l := range dead {
					if l.Kind != store.ItemEnd || l.Name != runs[0].ID && l.Name != runs[1].ID {
						t.Errorf("a dead letter is %+v", l)
					}
				}
				waitStatus(t, e, r.ID(), store.Suspended)
				if err := goOn.Send(t.Context(), e, runs[2].ID, "present"); err != nil {
					t.Fatal(err)
				}
				if got := outcome(t, r); got != "present" {
					t.Error(got)
				}
			})
		})
	}
}

// TestParentThatContinuesAsNewCancelsItsChildren, by their policy.
func TestParentThatContinuesAsNewCancelsItsChildren(t *testing.T) {
	t.Parallel()
	w := stet.Define("parent", func(ctx stet.Context, n int) (string, error) {
		if n == 1 {
			return "new", nil
		}
		if _, err := told.Go(ctx, ""); err != nil {
			return "", err
		}
		if _, err := told.Go(ctx, "", stet.Named("left"), stet.LeaveChild); err != nil {
			return "", err
		}
		if err := stet.Sleep(ctx, "until they have begun", time.Millisecond); err != nil {
			return "", err
		}
		return "", stet.ContinueAsNew(1)
	})
	e := serve(t, family(w))
	r, err := w.Start(testContext(t), e, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Wait(testContext(t)); err != nil || got != "new" {
		t.Fatalf("got %q, %v", got, err)
	}
	runs := children(t, e, r.ID())
	waitStatus(t, e, runs[0].ID, store.Cancelled)
	waitStatus(t, e, runs[1].ID, store.Suspended)
}

// TestWatchedRunThatContinuesAsNewTellsItsEnd: the watch is of the run, not of one
// incarnation.
func TestWatchedRunThatContinuesAsNewTellsItsEnd(t *testing.T) {
	t.Parallel()
	renewing := stet.Define("renewing", func(ctx stet.Context, n int) (string, error) {
		v, err := goOn.Receive(ctx)
		if err == nil && n == 0 {
			return "", stet.ContinueAsNew(1)
		}
		return v, err
	})
	w := stet.Define("parent", func(ctx stet.Context, id string) (string, error) {
		o, err := renewing.Go(ctx, 0)
		if err != nil {
			return "", err
		}
		a, err := stet.Await[string](ctx, "the other", id)
		if err != nil {
			return "", err
		}
		b, err := o.Await(ctx)
		return a + b, err
	})
	cfg := family(w)
	cfg.Workflows = append(cfg.Workflows, renewing)
	e := serve(t, cfg)
	ctx := testContext(t)
	if _, err := renewing.Start(ctx, e, 0, stet.ID("other")); err != nil {
		t.Fatal(err)
	}
	r, err := w.Start(ctx, e, "other")
	if err != nil {
		t.Fatal(err)
	}
	waitStatus(t, e, r.ID(), store.Suspended)
	child := children(t, e, r.ID())[0].ID
	for _, id := range []string{"other", child} {
		for _, text := range []string{"one", "two"} {
			if err := goOn.Send(ctx, e, id, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, err := r.Wait(ctx); err != nil || got != "twotwo" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestHistoryTellsOfChildren(t *testing.T) {
	t.Parallel()
	e, r := parent(t, func(ctx stet.Context) (int, error) {
		if _, err := declining.Call(ctx, ""); err == nil {
			return 0, errors.New("the child has not failed")
		}
		return square.Call(ctx, 7)
	})
	if _, err := r.Wait(testContext(t)); err != nil {
		t.Fatal(err)
	}
	entries, err := e.Runs().History(testContext(t), r.ID(), stet.HistoryQuery{Values: true})
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	runs := children(t, e, r.ID())
	failed, done := entries[0], entries[1]
	var of *stet.RunError
	if failed.Run != runs[0].ID || failed.Kind != store.KindChild || !errors.As(failed.Err(), &of) ||
		of.RunID != failed.Run || !errors.Is(of, errRefusedCard) {
		t.Errorf("the entry of the failed child is %+v: %v", failed, failed.Err())
	}
	n := 0
	if err := done.Decode(&n); err != nil || n != 49 || done.Run != runs[1].ID || done.Err() != nil {
		t.Errorf("the entry of the other is %+v: %d, %v", done, n, err)
	}
}

// TestTwoEndsOfOneChild: a child that has failed, and is retried by hand, ends twice. The parent keeps the first end.
func TestTwoEndsOfOneChild(t *testing.T) {
	t.Parallel()
	var fixed atomic.Bool
	flaky := stet.Define("flaky-child", func(ctx stet.Context, _ int) (string, error) {
		return stet.Step(ctx, "s", func(context.Context) (string, error) {
			if !fixed.Load() {
				return "", errors.New("broken")
			}
			return "fixed", nil
		}, stet.Retry{Attempts: 1})
	})
	w := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
		_, first := flaky.Call(ctx, 0)
		text, err := goOn.Receive(ctx)
		return fmt.Sprintf("%v; %s", first != nil, text), err
	})
	cfg := family(w)
	cfg.Workflows = append(cfg.Workflows, flaky)
	e := serve(t, cfg)
	ctx := testContext(t)
	r, err := w.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	waitsFor(t, e, r.ID(), "receive")
	child := children(t, e, r.ID())[0]
	fixed.Store(true)
	if ok, err := e.Runs().Retry(ctx, child.ID, stet.Act{Why: "fixed"}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if got, err := flaky.Handle(e, child.ID).Wait(ctx); err != nil || got != "fixed" {
		t.Fatal(got, err)
	}
	if err := goOn.Send(ctx, e, r.ID(), "over"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Wait(ctx); err != nil || got != "true; over" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestRetryOfTheParentTellsItOfChildrenThatHaveGoneOn: a retried parent asks again for the end of a child that went on
// meanwhile.
func TestRetryOfTheParentTellsItOfChildrenThatHaveGoneOn(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	w := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
		o, err := told.Go(ctx, "", stet.LeaveChild)
		if err != nil {
			return "", err
		}
		if err := stet.Do(ctx, "s", func(context.Context) error {
			if broken.Load() {
				return errors.New("broken")
			}
			return nil
		}); err != nil {
			return "", err
		}
		return o.Await(ctx)
	})
	e := serve(t, family(w))
	ctx := testContext(t)
	r, err := w.Start(ctx, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(ctx); err == nil {
		t.Fatal("the parent has not failed")
	}
	child := children(t, e, r.ID())[0]
	if err := goOn.Send(ctx, e, child.ID, "meanwhile"); err != nil {
		t.Fatal(err)
	}
	if _, err := told.Handle(e, child.ID).Wait(ctx); err != nil {
		t.Fatal(err)
	}
	broken.Store(false)
	if ok, err := e.Runs().Retry(ctx, r.ID(), stet.Act{Why: "fixed"}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if got, err := r.Wait(ctx); err != nil || got != "meanwhile" {
		t.Errorf("got %q, %v", got, err)
	}
}
