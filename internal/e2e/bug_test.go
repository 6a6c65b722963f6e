package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

type parcelV2 struct{ Weight int }

// TestAChangedTypeStalls: a run whose recorded result does not decode any more stalls, says
// why, refunds nobody, and goes on when the type is back.
func TestAChangedTypeStalls(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, other store.Store) {
		var refunds, packed atomic.Int32
		order := func(next func(stet.Context) (int, error)) *stet.Workflow[int, int] {
			return stet.Define("order", func(ctx stet.Context, _ int) (int, error) {
				err := stet.Do(ctx, "charge", func(context.Context) error { return nil },
					stet.UndoDo(func(context.Context) error { refunds.Add(1); return nil }))
				if err != nil {
					return 0, err
				}
				return next(ctx)
			})
		}
		pack := func(context.Context) (int, error) { packed.Add(1); return 7, nil }
		v1 := order(func(ctx stet.Context) (int, error) {
			n, err := stet.Step(ctx, "pack", pack)
			if err != nil {
				return 0, err
			}
			m, err := counter.Receive(ctx)
			return n + m, err
		})
		v2 := order(func(ctx stet.Context) (int, error) {
			p, err := stet.Step(ctx, "pack", func(context.Context) (parcelV2, error) { return parcelV2{7}, nil })
			if err != nil {
				return 0, err
			}
			m, err := counter.Receive(ctx)
			return p.Weight + m, err
		})
		ctx := testContext(t)
		first := startProcess(t, cfg.Store, with(cfg, v1))
		r := begin(t, first.Engine, v1, 0, stet.ID("o1"))
		waitStatus(t, first.Engine, "o1", store.Suspended)
		first.bury(t)
		before := history(t, client(t, other), "o1")

		second := startProcess(t, other, with(cfg, v2))
		if err := counter.Send(ctx, second.Engine, "o1", 1); err != nil {
			t.Fatal(err)
		}
		if _, err := v2.Handle(second.Engine, r.ID()).Wait(ctx); !errors.Is(err, stet.ErrStalled) {
			t.Fatalf("the run with the changed type: %v", err)
		}
		info, err := second.Runs().Info(ctx, "o1")
		if err != nil || info.Cause != stet.CauseDecode || refunds.Load() != 0 {
			t.Errorf("the run is %+v, %v, after %d refunds", info, err, refunds.Load())
		}
		for _, want := range []string{"decode at pack: recorded is 7: ", "parcelV2", "restore the type"} {
			if !strings.Contains(info.Reason, want) {
				t.Errorf("the reason is %q, want %q", info.Reason, want)
			}
		}
		if got := history(t, second.Engine, "o1"); got != before {
			t.Errorf("the history is\n%s\nwas\n%s", got, before)
		}
		var replay *stet.ReplayError
		if err := second.Replay(ctx, strings.NewReader(string(export(t, second.Engine, "o1")))); !errors.As(err, &replay) ||
			replay.Cause != stet.CauseDecode || replay.Location != "pack" {
			t.Errorf("a replay says %v", err)
		}
		second.bury(t)

		third := startProcess(t, other, with(cfg, v1))
		if _, err := third.Runs().Resume(ctx, "o1", stet.Act{}); err != nil {
			t.Fatal(err)
		}
		if got, err := v1.Handle(third.Engine, "o1").Wait(ctx); err != nil || got != 8 || packed.Load() != 1 ||
			refunds.Load() != 0 {
			t.Errorf("the resumed run gives %d, %v, packed %d times, refunded %d times", got, err, packed.Load(), refunds.Load())
		}
	})
}

// with returns the configuration with workflows.
func with(cfg stet.Config, workflows ...stet.Definition) stet.Config {
	cfg.Workflows = workflows
	return cfg
}

// history returns the history of a run as JSON.
func history(t *testing.T, e *stet.Engine, id string) string {
	t.Helper()
	entries, err := e.Runs().History(testContext(t), id, stet.HistoryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestBugsStall: each fault of the code stalls the run with its cause, undoes nothing and
// records nothing; with FailOnBug the run fails and is undone.
func TestBugsStall(t *testing.T) {
	t.Parallel()
	var refunds atomic.Int32
	bugs := map[string]struct {
		cause stet.Cause
		code  func(stet.Context) error
	}{
		"panic": {stet.CausePanic, func(stet.Context) error { panic("on purpose") }},
		"panic of a branch": {stet.CausePanic, func(ctx stet.Context) error {
			_, err := stet.Go(ctx, "b", func(stet.Context) (int, error) { panic("on purpose") }).Await(ctx)
			return err
		}},
		"foreign goroutine": {stet.CauseMisuse, func(ctx stet.Context) error {
			done := make(chan struct{})
			//stetvet:ignore goroutine the misuse is what is tested
			go func() {
				defer close(done)
				//stetvet:ignore leak the misuse is what is tested
				//stetvet:ignore error only the start of it matters here
				_ = stet.Do(ctx, "write", func(context.Context) error { return nil })
			}()
			//stetvet:ignore channel the code holds the run where the test wants it
			<-done
			return nil
		}},
		"deadlock": {stet.CauseDeadlock, func(ctx stet.Context) error {
			var second *stet.Future[int]
			first := stet.Go(ctx, "first", func(ctx stet.Context) (int, error) { return second.Await(ctx) })
			second = stet.Go(ctx, "second", func(ctx stet.Context) (int, error) { return first.Await(ctx) })
			return stet.Join(ctx, first, second)
		}},
		"heartbeat": {stet.CauseDecode, func(ctx stet.Context) error {
			_, err := stet.Step(ctx, "beat", func(ctx context.Context) (int, error) {
				if stet.Attempt(ctx) == 1 {
					return 0, errors.Join(stet.Heartbeat(ctx, "text"), errors.New("again"))
				}
				n, _, err := stet.LastDetail[int](ctx)
				return n, err
			}, stet.Retry{First: 1, Attempts: 4})
			return err
		}},
	}
	w := stet.Define("bugs", func(ctx stet.Context, name string) (int, error) {
		err := stet.Do(ctx, "charge", func(context.Context) error { return nil },
			stet.UndoDo(func(context.Context) error { refunds.Add(1); return nil }))
		if err != nil {
			return 0, err
		}
		return 0, bugs[name].code(ctx)
	})
	s := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	f := serve(t, stet.Config{Workflows: []stet.Definition{w}, OnBug: stet.FailOnBug})
	ctx := testContext(t)
	for name, bug := range bugs {
		refunds.Store(0)
		r := begin(t, s, w, name)
		_, err := r.Wait(ctx)
		info, infoErr := r.Info(ctx)
		if !errors.Is(err, stet.ErrStalled) || infoErr != nil || info.Cause != bug.cause || refunds.Load() != 0 {
			t.Errorf("%s: the run ends with %v, %+v, after %d refunds", name, err, info, refunds.Load())
		}
		var failure *stet.FailureRecord
		if bug.cause == stet.CausePanic && (!errors.As(err, &failure) || !strings.Contains(failure.Stack, "bug_test.go")) {
			t.Errorf("%s: the failure is %+v", name, failure)
		}
		if _, err := run(t, f, w, name); errors.Is(err, stet.ErrStalled) || err == nil || refunds.Load() != 1 {
			t.Errorf("%s with FailOnBug: the run ends with %v, after %d refunds", name, err, refunds.Load())
		}
	}
}

// TestStallByCode: Stall stalls the run from its function, a branch, a loop and a saga, also
// wrapped, with FailOnBug, and in a cancelled run. Nothing of the stretch is written or
// undone, and a step that returns it has failed.
func TestStallByCode(t *testing.T) {
	t.Parallel()
	asked := fmt.Errorf("wrapped: %w", stet.Stall("look at it"))
	sleeps := make(chan struct{})
	places := map[string]func(stet.Context) error{
		"function": func(stet.Context) error { return asked },
		"branch": func(ctx stet.Context) error {
			_, err := stet.Go(ctx, "b", func(stet.Context) (int, error) { return 0, asked }).Await(ctx)
			return errors.Join(err, errors.New("not reached"))
		},
		"loop": func(ctx stet.Context) error {
			_, err := stet.Loop(ctx, "l", 0, func(stet.Context, int) (stet.Next[int, int], error) {
				return stet.Next[int, int]{}, asked
			})
			return err
		},
		"saga": func(ctx stet.Context) error {
			_, err := stet.Saga(ctx, "s", func(stet.Context) (int, error) { return 0, asked })
			return err
		},
		"cancelled": func(ctx stet.Context) error {
			err := stet.Do(ctx, "say", func(context.Context) error { close(sleeps); return nil })
			if err == nil { // the cancel may come before the step is recorded
				err = stet.Sleep(ctx, "wait", time.Hour)
			}
			if !errors.Is(err, stet.ErrCancelled) {
				return err
			}
			return asked
		},
	}
	var refunds atomic.Int32
	w := stet.Define("asks", func(ctx stet.Context, place string) (int, error) {
		err := stet.Do(ctx, "charge", func(context.Context) error { return nil },
			stet.UndoDo(func(context.Context) error { refunds.Add(1); return nil }))
		if err != nil {
			return 0, err
		}
		if place == "step" {
			return 0, stet.Do(ctx, "asks", func(context.Context) error { return stet.Stall("no") }, stet.Retry{Attempts: 1})
		}
		if err := stet.Value[int]("shown").Set(ctx, 1); err != nil {
			return 0, err
		}
		return 0, places[place](ctx)
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}, OnBug: stet.FailOnBug})
	ctx := testContext(t)
	for place := range places {
		r := begin(t, e, w, place)
		if place == "cancelled" {
			<-sleeps
			if _, err := e.Runs().Cancel(ctx, r.ID(), stet.Act{}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := r.Wait(ctx)
		info, infoErr := r.Info(ctx)
		if !errors.Is(err, stet.ErrStalled) || infoErr != nil || info.Cause != stet.CauseCode ||
			!strings.Contains(info.Reason, "look at it") {
			t.Errorf("%s: the run ends with %v: %+v", place, err, info)
		}
		if _, shown, err := stet.Value[int]("shown").Get(ctx, e, r.ID()); shown != (place == "cancelled") || err != nil {
			t.Errorf("%s: what was taken back is shown: %v, %v", place, shown, err)
		}
	}
	if refunds.Load() != 0 {
		t.Errorf("%d refunds, expected none", refunds.Load())
	}
	if _, err := run(t, e, w, "step"); err == nil || !strings.Contains(err.Error(), "only the workflow's code") {
		t.Errorf("of a step: %v", err)
	}
}

// TestAQueuedRunOfAnotherTypeStalls: a run whose input does not decode stalls at its start
// and goes on with code that fits; a mismatch that would follow from it is not told.
func TestAQueuedRunOfAnotherTypeStalls(t *testing.T) {
	t.Parallel()
	type order struct{ Total int }
	w := stet.Define("input", func(ctx stet.Context, o order) (int, error) { return o.Total, nil })
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	ctx := testContext(t)
	if _, err := stet.Ref[string, int]("input").Start(ctx, e, "old", stet.ID("q")); err != nil {
		t.Fatal(err)
	}
	_, err := w.Handle(e, "q").Wait(ctx)
	info, infoErr := e.Runs().Info(ctx, "q")
	if !errors.Is(err, stet.ErrStalled) || !errors.Is(err, stet.ErrInput) || infoErr != nil ||
		info.Cause != stet.CauseDecode || !strings.Contains(info.Reason, `recorded is "old"`) {
		t.Errorf("the run ends with %v: %+v", err, info)
	}
	if got := history(t, e, "q"); got != "null" && got != "[]" {
		t.Errorf("the history is %s", got)
	}
	if _, err := e.Runs().Retry(ctx, "q", stet.Act{}); err != nil {
		t.Errorf("a retry, which is a resume: %v", err)
	}
}
