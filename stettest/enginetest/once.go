package enginetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
)

// once drives the scenarios by calls of RunOnce alone, each in a process of its own with a handle
// of its own, as a cron job makes them. Each call begins when the one before has asked for it, or
// something has come.
func once(t *testing.T, open Open) {
	w := newWorld(t, open)
	const naps, nap = 2, 1200 * time.Millisecond // RunOnce waits for delays below a second
	sleeper := stet.Define("sleeper", func(ctx stet.Context, _ string) (string, error) {
		for i := range naps {
			if err := stet.Do(ctx, fmt.Sprint("step-", i), func(context.Context) error { return nil }); err != nil {
				return "", err
			}
			if err := stet.Sleep(ctx, fmt.Sprint("nap-", i), nap); err != nil {
				return "", err
			}
		}
		return "awake", nil
	})
	workflows := append(w.workflows(), sleeper)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	wait := w.begin(ctx, "once-")
	ended := make(chan []error, 1)
	go func() {
		problems := wait()
		err := w.run(ctx, &scenario{name: "sleeper", want: "awake"}, "once-sleeper")
		ended <- append(problems, err)
	}()
	calls := 0
	call := func() time.Time {
		calls++
		e, err := stet.New(ctx, stet.Config{
			Store: w.open(), Payloads: payloads, Workflows: workflows, Library: lists{}, Around: w.around,
			Node: fmt.Sprint("call-", calls), Build: "1", Logger: slog.New(slog.DiscardHandler),
			LeaseTTL: longLease, Poll: poll, MaxParkedBytes: 80_000, ParkFor: 20 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		next, err := e.RunOnce(ctx)
		if err != nil {
			t.Fatalf("call %d: %v", calls, err)
		}
		return next
	}
	var problems []error
	for problems == nil {
		next := call()
		pause := poll // the callers outside send something
		if !next.IsZero() {
			pause = max(min(pause, time.Until(next)), 0)
		}
		select {
		case problems = <-ended:
		case <-time.After(pause):
		}
	}
	if err := errors.Join(problems...); err != nil {
		t.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, n := range w.executions {
		if n > 1 && !slices.ContainsFunc(repeated, func(step string) bool { return strings.HasSuffix(key, step) }) {
			t.Errorf("%s was executed %d times", key, n)
		}
	}
	if calls <= naps {
		t.Errorf("expected a call for each of %d sleeps and one before, found %d calls", naps, calls)
	}
}
