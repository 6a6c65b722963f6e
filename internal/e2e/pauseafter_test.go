package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

// stubborn is a workflow with a step that fails at its first attempts, and whose
// runs are paused after each second one.
func stubborn(failures int, opts ...stet.DefineOption) *stet.Workflow[string, string] {
	return stet.Define("stubborn", func(ctx stet.Context, _ string) (string, error) {
		before, err := say(ctx, "before", "b")
		if err != nil {
			return "", err
		}
		done, err := stet.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			if n := stet.Attempt(ctx); n <= failures {
				return "", fmt.Errorf("try %d: bank is closed", n)
			}
			return "paid", nil
		}, stet.Retry{Attempts: 8, First: time.Millisecond, Max: time.Millisecond})
		return before + done, err
	}, append(opts, stet.PauseAfter(2))...)
}

// resumePaused resumes a run whenever it is paused, until it has ended.
func resumePaused(ctx context.Context, e *stet.Engine, id string) error {
	for {
		info, err := e.Runs().Info(ctx, id)
		switch {
		case err != nil:
			return err
		case info.Status.Terminal():
			return nil
		case info.Marks&store.Paused != 0:
			if _, err := e.Runs().Resume(ctx, id, stet.Act{By: "ada"}); err != nil && !errors.Is(err, stet.ErrRefused) &&
				!errors.Is(err, stet.ErrTerminal) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// pausedFor returns what the engine paused a run for, without the name of the step.
func pausedFor(ctx context.Context, e *stet.Engine, id string) (string, error) {
	audit, err := e.Runs().Audit(ctx, id)
	var reasons []string
	for _, a := range audit {
		if a.Verb == "pause" && a.Who == "engine" {
			reasons = append(reasons, strings.TrimPrefix(a.Why, "step charge has failed "))
		}
	}
	return strings.Join(reasons, "; "), err
}

// TestPauseAfterFailures: the run is paused with a reason, and goes on when it is
// resumed; after as many failures more it is paused again.
func TestPauseAfterFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := stubborn(5)
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
		ctx := t.Context()
		r := begin(t, e, w, "")
		for _, want := range []string{
			"paused: step charge has failed 2 times, at last with: try 2: bank is closed",
			"paused: step charge has failed 4 times, at last with: try 4: bank is closed",
		} {
			time.Sleep(time.Hour) // nothing goes on by itself
			info, err := e.Runs().Info(ctx, r.ID())
			if err != nil || info.Marks != store.Paused || info.Reason != want || info.Err != nil {
				t.Fatalf("the run is %s %s, because of %q, %v, %v; want %q",
					info.Status, info.Marks, info.Reason, info.Err, err, want)
			}
			ok, err := e.Runs().Resume(ctx, r.ID(), stet.Act{})
			done(t, ok, err)
		}
		if got := outcome(t, r); got != "bpaid" {
			t.Fatal(got)
		}
		info, err := e.Runs().Info(ctx, r.ID())
		if err != nil || info.Marks != 0 || info.Reason != "" {
			t.Errorf("the run has the marks %q and the reason %q, %v", info.Marks, info.Reason, err)
		}
		got, err := pausedFor(ctx, e, r.ID())
		if want := "2 times, at last with: try 2: bank is closed; 4 times, at last with: try 4: bank is closed"; err != nil ||
			got != want {
			t.Errorf("it was paused for %q, %v", got, err)
		}
	})
}

// TestResumeClearsTheReason at once, and so do the verbs that take back.
func TestResumeClearsTheReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := stubborn(1000)
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
		ctx := t.Context()
		r := begin(t, e, w, "")
		time.Sleep(time.Hour)
		ok, err := e.Runs().EditResult(ctx, r.ID(), "charge", "by cash", stet.Act{})
		done(t, ok, err)
		info, err := e.Runs().Info(ctx, r.ID())
		if err != nil || info.Marks != store.Paused || info.Reason != "" {
			t.Fatalf("the run has the marks %q and the reason %q, %v", info.Marks, info.Reason, err)
		}
		ok, err = e.Runs().Resume(ctx, r.ID(), stet.Act{})
		done(t, ok, err)
		if got := outcome(t, r); got != "bby cash" {
			t.Error(got)
		}
	})
}

// TestPauseAfterTheLastAttempt: then the step has failed, which the workflow's code
// decides about, and OnFailure.
func TestPauseAfterTheLastAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retry stet.Retry
		err   error
		opts  []stet.DefineOption
		want  string
	}{
		"no attempt left": {retry: stet.Retry{Attempts: 2, First: time.Millisecond}, err: errors.New("no"),
			want: "step s failed after 2 attempts: no"},
		"permanent": {err: stet.Permanent(errors.New("no")), want: "step s failed: no"},
		"stalls": {retry: stet.Retry{Attempts: 2, First: time.Millisecond}, err: errors.New("no"),
			opts: []stet.DefineOption{stet.StallOnFailure}, want: "stalled: failure: step s failed after 2 attempts: no"},
	} {
		t.Run(name, func(t *testing.T) {
			w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
				return 0, stet.Do(ctx, "s", func(context.Context) error { return c.err }, c.retry)
			}, append(c.opts, stet.PauseAfter(2))...)
			e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
			if _, err := run(t, e, w, 0); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want %q", err, c.want)
			}
		})
	}
}

// TestPauseAfterIsOptional: without it, and with None, a run goes on by itself.
func TestPauseAfterIsOptional(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]stet.DefineOption{"default": nil, "none": {stet.PauseAfter(stet.None)}} {
		t.Run(name, func(t *testing.T) {
			w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
				return stet.Step(ctx, "s", func(ctx context.Context) (int, error) {
					if n := stet.Attempt(ctx); n < 7 {
						return 0, errors.New("again")
					}
					return 7, nil
				}, stet.Retry{Attempts: 8, First: time.Millisecond, Max: time.Millisecond})
			}, opts...)
			if got, err := run(t, serve(t, stet.Config{Workflows: []stet.Definition{w}}), w, 0); got != 7 || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}

func TestPauseAfterIsChecked(t *testing.T) {
	t.Parallel()
	w := stet.Define("w", func(stet.Context, int) (int, error) { return 0, nil }, stet.PauseAfter(-2))
	_, err := stet.New(t.Context(), stet.Config{Store: testStores[0].open(t)(), Workflows: []stet.Definition{w}})
	if !errors.Is(err, stet.ErrInvalid) || !strings.Contains(err.Error(),
		`workflow "w": PauseAfter: expected 1 or more, or None, found -2`) {
		t.Errorf("got %v", err)
	}
}

// TestPauseAfterFailuresThroughCrashes: whatever commit the process dies at, the run
// is paused as often as without, and for the same.
func TestPauseAfterFailuresThroughCrashes(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			out, err := stettest.CrashEverywhere(t, stubborn(5), "", stettest.On(s.open),
				crashFaults(t, s.name),
				stettest.Driving(resumePaused),
				stettest.Checking(func(ctx context.Context, e *stet.Engine, id string) error {
					got, err := pausedFor(ctx, e, id)
					const want = "2 times, at last with: try 2: bank is closed; 4 times, at last with: try 4: bank is closed"
					if err == nil && got != want {
						err = fmt.Errorf("it was paused for %q", got)
					}
					return err
				}))
			if out != "bpaid" || err != nil {
				t.Errorf("got %q, %v", out, err)
			}
		})
	}
}
