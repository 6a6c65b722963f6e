package stettest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

// The workflow under test: it charges, waits for an approval for three days, and
// ships a week later.
var approved = stet.Message[bool]("approved")

var order = stet.Define("order", func(ctx stet.Context, item string) (string, error) {
	receipt, err := stet.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		return "", nil // bank.Charge(…)
	})
	if err != nil {
		return "", err
	}
	if ok, err := approved.Receive(ctx, stet.Within(72*time.Hour)); err != nil || !ok {
		return "", err
	}
	if err := stet.Sleep(ctx, "wait", 7*24*time.Hour); err != nil {
		return "", err
	}
	return receipt, stet.Do(ctx, "ship", func(ctx context.Context) error { return nil })
})

// A test under virtual time: ten days pass in a millisecond.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestOrder(t *testing.T)
		stettest.Run(t, stet.Config{Workflows: []stet.Definition{order}}, func(t *testing.T, env *stettest.Env) {
			env.Replace("charge", stettest.Returns("receipt 7"))
			run, err := order.Start(t.Context(), env.Engine, "tea")
			if err != nil {
				t.Fatal(err)
			}
			env.At(2*24*time.Hour, func(ctx context.Context) error {
				return approved.Send(ctx, env.Engine, run.ID(), true)
			})
			receipt, err := run.Wait(t.Context())
			if err != nil || receipt != "receipt 7" {
				t.Errorf("got %q, %v", receipt, err)
			}
			if days := env.Elapsed().Hours() / 24; days < 9 || days > 9.1 {
				t.Errorf("it has taken %v days", days)
			}
			if n := env.Attempts("ship"); n != 1 {
				t.Errorf("shipped %d times", n)
			}
		})
	}
}

// Replacements: each attempt of "charge" does what the sequence says, the delays
// between them are virtual too.
func ExampleEnv_Replace() {
	_ = func(t *testing.T, env *stettest.Env) {
		env.Replace("charge", stettest.Sequence(
			stettest.Fails(context.DeadlineExceeded),
			stettest.Takes(time.Minute, stettest.Returns("receipt 7")),
		))
		env.Replace("ship", stettest.Own)
	}
}

// The process is killed at each commit, in each way, and the run recovered.
func ExampleCrashEverywhere() {
	_ = func(t *testing.T) { // func TestOrderSurvives(t *testing.T)
		_, err := stettest.CrashEverywhere(t, order, "tea",
			stettest.Driving(func(ctx context.Context, e *stet.Engine, runID string) error {
				time.Sleep(24 * time.Hour) // virtual
				return approved.Send(ctx, e, runID, true, stet.SendKey("once"))
			}))
		if err != nil {
			t.Error(err)
		}
	}
}

// A history that a former version recorded, as exported with "stet export", must
// fit the code of today.
func ExampleReplay() {
	_ = func(t *testing.T) { // func TestHistories(t *testing.T)
		stettest.Replay(t, "testdata/order-42.json", order)
	}
}

// The examples above are real tests.
func TestExamples(t *testing.T) {
	stettest.Run(t, with(order), func(t *testing.T, env *stettest.Env) {
		env.Replace("charge", stettest.Sequence(
			stettest.Fails(context.DeadlineExceeded),
			stettest.Takes(time.Minute, stettest.Returns("receipt 7")),
		))
		r := start(t, env, order, "tea")
		env.At(2*day, func(ctx context.Context) error { return approved.Send(ctx, env.Engine, r.ID(), true) })
		want(t, r, "receipt 7")
		if d := env.Elapsed(); d < 9*day || d > 9*day+time.Second {
			t.Errorf("%v have passed", d)
		}
	})
	_, err := stettest.CrashEverywhere(t, order, "tea",
		stettest.Driving(func(ctx context.Context, e *stet.Engine, runID string) error {
			time.Sleep(day)
			return approved.Send(ctx, e, runID, true, stet.SendKey("once"))
		}))
	if err != nil {
		t.Error(err)
	}
}
