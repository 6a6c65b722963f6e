package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

var (
	rate     = stet.Value[float64]("rate")
	rates    = stet.Stream[float64]("rates")
	rateOf   = stet.Update[string, float64]("rate of")
	rateIs   = stet.Message[float64]("rate is")
	allRates = stet.Topic[float64]{Name: "all rates"}
	halved   = stet.Define("halved", func(_ stet.Context, x float64) (float64, error) { return x / 2, nil })
	noted    = stet.Define("noted", func(stet.Context, string) (string, error) { return "", nil })
)

// unrecordable are the places at which code gives the engine a value. x is no number that JSON has
// until the code is fixed; large is larger than a value may be until then.
var unrecordable = map[string]func(ctx stet.Context, x float64, large string) error{
	"step": func(ctx stet.Context, x float64, _ string) error {
		_, err := stet.Step(ctx, "quote", func(context.Context) (float64, error) { return x, nil })
		return err
	},
	"large step": func(ctx stet.Context, _ float64, large string) error {
		_, err := stet.Step(ctx, "quote", func(context.Context) (string, error) { return large, nil })
		return err
	},
	"step of a branch": func(ctx stet.Context, x float64, _ string) error {
		_, err := stet.Go(ctx, "branch", func(ctx stet.Context) (float64, error) {
			return stet.Step(ctx, "quote", func(context.Context) (float64, error) { return x, nil })
		}).Await(ctx)
		return err
	},
	"value":       func(ctx stet.Context, x float64, _ string) error { return rate.Set(ctx, x) },
	"large value": func(ctx stet.Context, _ float64, large string) error { return said.Set(ctx, large) },
	"stream":      func(ctx stet.Context, x float64, _ string) error { return rates.Append(ctx, x) },
	"emit": func(ctx stet.Context, x float64, _ string) error {
		return stet.Do(ctx, "quote", func(ctx context.Context) error { return rates.Emit(ctx, x) })
	},
	"heartbeat": func(ctx stet.Context, x float64, _ string) error {
		return stet.Do(ctx, "quote", func(ctx context.Context) error { return stet.Heartbeat(ctx, x) })
	},
	"input of a child": func(ctx stet.Context, x float64, _ string) error {
		_, err := halved.Call(ctx, x)
		return err
	},
	"large input of a child": func(ctx stet.Context, _ float64, large string) error {
		_, err := noted.Detach(ctx, large)
		return err
	},
	"state of a loop": func(ctx stet.Context, x float64, _ string) error {
		_, err := stet.Loop(ctx, "rounds", 0.0,
			func(_ stet.Context, s float64) (next stet.Next[float64, float64], err error) {
				if s == 0 {
					return next.Continue(x), nil
				}
				return next.Break(s), nil
			})
		return err
	},
	"large state of a loop": func(ctx stet.Context, _ float64, large string) error {
		_, err := stet.Loop(ctx, "rounds", "",
			func(_ stet.Context, s string) (next stet.Next[string, string], err error) {
				if s == "" {
					return next.Continue(large), nil
				}
				return next.Break(s), nil
			})
		return err
	},
	"message": func(ctx stet.Context, x float64, _ string) error { return rateIs.SendFrom(ctx, "other", x) },
	"request": func(ctx stet.Context, _ float64, large string) error {
		_, err := rateOf.SendFrom(ctx, "other", large)
		return err
	},
	"event": func(ctx stet.Context, x float64, _ string) error {
		_, err := stet.Publish(ctx, allRates, x)
		return err
	},
	"input of a task": func(ctx stet.Context, x float64, _ string) error {
		_, err := stet.Task[float64, float64]("quote").Run(ctx, x)
		return err
	},
	"answer": func(ctx stet.Context, x float64, _ string) error {
		r, err := rateOf.Receive(ctx)
		if err != nil {
			return err
		}
		return r.Answer(ctx, x)
	},
	"output":       func(stet.Context, float64, string) error { return nil },
	"large output": func(stet.Context, float64, string) error { return nil },
	"continue as new": func(_ stet.Context, x float64, _ string) error {
		return stet.ContinueAs(halved, x)
	},
}

// priced returns the workflow with what is done at a place after a charge that can be undone.
func priced(place string, fixed *atomic.Bool, charges, refunds *atomic.Int64) stet.Definition {
	return stet.Define("priced", func(ctx stet.Context, _ int) (any, error) {
		x, large := math.NaN(), strings.Repeat("x", 2000)
		if fixed.Load() {
			x, large = 2, "small"
		}
		if err := stet.Do(ctx, "charge", func(context.Context) error { charges.Add(1); return nil },
			stet.UndoDo(func(context.Context) error { refunds.Add(1); return nil })); err != nil {
			return nil, err
		}
		if err := unrecordable[place](ctx, x, large); err != nil {
			return nil, err
		}
		switch place {
		case "output":
			return x, nil
		case "large output":
			return large, nil
		}
		return 1.0, nil
	})
}

// TestAValueThatCannotBeRecordedIsNoFailure: wherever code gives the engine a value that does not
// encode, or is too large, its run stalls and nothing is undone. When the code is fixed, it goes on.
func TestAValueThatCannotBeRecordedIsNoFailure(t *testing.T) {
	t.Parallel()
	for place := range unrecordable {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var fixed atomic.Bool
				var charges, refunds atomic.Int64
				w := priced(place, &fixed, &charges, &refunds)
				quote := stet.Task[float64, float64]("quote").Func(
					func(_ context.Context, x float64) (float64, error) { return x, nil })
				e := serve(t, stet.Config{Workflows: []stet.Definition{w, halved, noted}, MaxValue: 1000,
					Tasks: []stet.TaskFunc{quote}})
				ctx := t.Context()
				if _, err := stet.Ref[int, any]("priced").Start(ctx, e, 0, stet.ID("r")); err != nil {
					t.Fatal(err)
				}
				if place == "answer" {
					go func() { _, _ = rateOf.Call(ctx, e, "r", "euro", stet.SendKey("k")) }()
				}
				untilRun(t, e, "r", func(info *stet.RunInfo) bool {
					return info.Status.Terminal() || info.Status == store.Stalled
				})
				info, err := e.Runs().Info(ctx, "r")
				if err != nil {
					t.Fatal(err)
				}
				if info.Status != store.Stalled || info.Cause != stet.CauseEncode || refunds.Load() != 0 {
					t.Fatalf("the run is %s for %q: %s, with %d refunds; want it stalled for encode with none",
						info.Status, info.Cause, info.Reason, refunds.Load())
				}
				fixed.Store(true)
				if _, err := e.Runs().Resume(ctx, "r", stet.Act{}); err != nil {
					t.Fatal(err)
				}
				if got, err := stet.Ref[int, any]("priced").Handle(e, "r").Wait(ctx); err != nil {
					t.Errorf("when the code is fixed it returns %v, %v", got, err)
				}
				if charges.Load() != 1 || refunds.Load() != 0 {
					t.Errorf("%d charges and %d refunds", charges.Load(), refunds.Load())
				}
			})
		})
	}
}

// TestASuccessThatCannotBeRecordedIsOwed: the body has had its effect. It is executed again with
// its key, whatever Attempts says; and a cancel says what is owed.
func TestASuccessThatCannotBeRecordedIsOwed(t *testing.T) {
	t.Parallel()
	for _, ends := range []string{"resume", "cancel", "terminate", "cancelled before"} {
		t.Run(ends, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var fixed atomic.Bool
				var keys []string
				undone, begun, goOn := "", make(chan struct{}), make(chan struct{})
				w := stet.Define("w", func(ctx stet.Context, _ int) (float64, error) {
					return stet.Step(ctx, "charge", func(ctx context.Context) (float64, error) {
						if keys = append(keys, fmt.Sprint(stet.IdempotencyKey(ctx), stet.Attempt(ctx))); len(keys) == 1 {
							close(begun)
							<-goOn
						}
						if fixed.Load() {
							return 7, nil
						}
						return math.Inf(1), nil
					}, stet.Retry{Attempts: stet.None}, stet.Undo(func(_ context.Context, x float64) error {
						undone = fmt.Sprint(x)
						return nil
					}))
				})
				s := memory.New()
				e := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{w}})
				ctx := t.Context()
				run, err := w.Start(ctx, e, 0, stet.ID("r"))
				if err != nil {
					t.Fatal(err)
				}
				<-begun
				if ends == "cancelled before" {
					go func() { _, _ = e.Runs().Cancel(ctx, "r", stet.Act{Why: "no more"}) }()
					synctest.Wait()
				}
				close(goOn)
				waitStatus(t, e, "r", store.Stalled)
				switch ends {
				case "resume", "cancelled before":
					fixed.Store(true)
					if _, err := e.Runs().Resume(ctx, "r", stet.Act{}); err != nil {
						t.Fatal(err)
					}
					got, err := run.Wait(ctx)
					if len(keys) != 2 || keys[0] != keys[1] {
						t.Errorf("executed with %q", keys)
					}
					if ends == "resume" && (err != nil || got != 7) {
						t.Errorf("got %v, %v", got, err)
					}
					if ends != "resume" && (!errors.Is(err, stet.ErrCancelled) || undone != "7") {
						t.Errorf("got %v, %v; undone is %q", got, err, undone)
					}
				case "cancel", "terminate":
					act := e.Runs().Cancel
					if ends == "terminate" {
						act = e.Runs().Terminate
					}
					if _, err := act(ctx, "r", stet.Act{Why: "no more"}); err != nil {
						t.Fatal(err)
					}
					var end *stet.RunError
					if _, err := run.Wait(ctx); !errors.As(err, &end) || !slices.Equal(end.Owed, []string{"charge"}) {
						t.Errorf("it ends with %v, %+v", err, end)
					}
				}
			})
		})
	}
}
