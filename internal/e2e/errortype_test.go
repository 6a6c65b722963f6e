package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// limitText is what limitError has become.
type limitText struct{ Limit string }

func (e *limitText) Error() string { return "over the limit of " + e.Limit }

var errLimit = errors.New("over the limit")

// TestAChangedErrorTypeStalls: an error that is recorded with the code of a registered type,
// and is no such error any more, stalls the run where its code gets it, of a step or in the
// failure of a child. Nothing is undone. With the former type the run goes on, and with
// FailOnBug the code gets a *Failure.
func TestAChangedErrorTypeStalls(t *testing.T) {
	t.Parallel()
	former := stet.ErrorType[*limitError]("limit")
	latter := stet.ErrorType[*limitText]("limit")
	sentinel := stet.Sentinel("limit", errLimit)
	declined := func(ctx stet.Context, fails error) error {
		return stet.Do(ctx, "charge", func(context.Context) error { return fmt.Errorf("bank: %w", fails) },
			stet.Retry{Attempts: 1})
	}
	var refunds atomic.Int32
	for _, c := range []struct {
		name       string
		recorded   stet.ErrorCode
		fails      error
		then       stet.ErrorCode
		childFails bool
		bug        stet.OnBug
	}{
		{"of a step", former, &limitError{7}, latter, false, stet.StallOnBug},
		{"of a child", former, &limitError{7}, latter, true, stet.StallOnBug},
		{"that was a sentinel", sentinel, errLimit, latter, false, stet.StallOnBug},
		{"with FailOnBug", former, &limitError{7}, latter, false, stet.FailOnBug},
	} {
		child := stet.Define("child", func(ctx stet.Context, _ int) (int, error) { return 0, declined(ctx, c.fails) })
		// The code decides by the error that it gets.
		w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
			if err := stet.Do(ctx, "reserve", func(context.Context) error { return nil },
				stet.UndoDo(func(context.Context) error { refunds.Add(1); return nil })); err != nil {
				return "", err
			}
			var err error
			if c.childFails {
				_, err = child.Call(ctx, 0)
			} else {
				err = declined(ctx, c.fails)
			}
			if _, err := word.Receive(ctx); err != nil {
				return "", err
			}
			var limit *limitError
			var failure *stet.Failure
			switch {
			case errors.As(err, &limit):
				return fmt.Sprint("limit ", limit.Limit), nil
			case errors.Is(err, errLimit):
				return "the sentinel", nil
			case errors.As(err, &failure):
				return "a failure: " + failure.Message, nil
			}
			return "", err
		}, c.bug)
		forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, other store.Store) {
			ctx := testContext(t)
			id := "of " + c.name
			cfg.Workflows, cfg.Errors = []stet.Definition{w, child}, []stet.ErrorCode{c.recorded}
			first := startProcess(t, cfg.Store, cfg)
			begin(t, first.Engine, w, 0, stet.ID(id))
			waitsFor(t, first.Engine, id, "receive")
			first.bury(t)

			changed := cfg
			changed.Errors = []stet.ErrorCode{c.then}
			second := startProcess(t, other, changed)
			if err := word.Send(ctx, second.Engine, id, "go"); err != nil {
				t.Fatal(err)
			}
			got, err := w.Handle(second.Engine, id).Wait(ctx)
			if c.bug == stet.FailOnBug {
				if want := "a failure: bank: over the limit of 7"; err != nil || got != want {
					t.Errorf("%s: the run gives %q, %v; expected %q", c.name, got, err, want)
				}
				return
			}
			info, infoErr := second.Runs().Info(ctx, id)
			if !errors.Is(err, stet.ErrStalled) || infoErr != nil || info.Cause != stet.CauseDecode || refunds.Load() != 0 {
				t.Fatalf("%s: the run gives %q, %v, is stalled for %q, %v, after %d refunds", c.name, got, err, info.Cause,
					infoErr, refunds.Load())
			}
			for _, want := range []string{`error "limit" is no *e2e_test.limitText`, "restore the type"} {
				if !strings.Contains(info.Reason, want) {
					t.Errorf("%s: the reason is %q, want %q", c.name, info.Reason, want)
				}
			}
			second.bury(t)

			third := startProcess(t, other, cfg)
			if _, err := third.Runs().Resume(ctx, id, stet.Act{}); err != nil {
				t.Fatal(err)
			}
			want := "limit 7"
			if c.fails == errLimit {
				want = "the sentinel"
			}
			if got, err := w.Handle(third.Engine, id).Wait(ctx); err != nil || got != want {
				t.Errorf("%s: the resumed run gives %q, %v; expected %q", c.name, got, err, want)
			}
		})
	}
}
