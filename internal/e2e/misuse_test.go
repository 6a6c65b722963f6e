package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stet-run/stet"
)

// TestWhatBelongsToAnotherRun: a future, a promise or a child of another run is refused
// with its owner's name, wherever it is awaited.
func TestWhatBelongsToAnotherRun(t *testing.T) {
	t.Parallel()
	var future *stet.Future[int]
	var promise *stet.Promise[int]
	owner := stet.Define("owner", func(ctx stet.Context, _ int) (int, error) {
		future = stet.Go(ctx, "branch", never2)
		var err error
		if promise, err = stet.NewPromise[int](ctx, "promise"); err != nil {
			return 0, err
		}
		return counter.Receive(ctx)
	})
	thief := stet.Define("thief", func(ctx stet.Context, how string) (int, error) {
		var value int
		switch how {
		case "await a future":
			return future.Await(ctx)
		case "join":
			return 0, stet.Join(ctx, future)
		case "race":
			_, won, err := stet.Race(ctx, future)
			return won, err
		case "next of several":
			var open stet.Settled[int]
			open.Add(future)
			_, err := open.Next(ctx)
			return 0, err
		case "cancel a future":
			future.Cancel(ctx)
			return 0, nil
		case "await a promise":
			return promise.Await(ctx)
		case "select a future":
			_, err := stet.Select(ctx, counter.Case(&value), future.Case())
			return 0, err
		case "select a promise":
			_, err := stet.Select(ctx, counter.Case(&value), promise.Case())
			return 0, err
		}
		return 0, errors.New("nobody knows " + how)
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{owner, thief}})
	o := begin(t, e, owner, 0, stet.ID("the-owner"))
	waitStatus(t, e, o.ID(), 3)
	for _, how := range []string{
		"await a future", "join", "race", "next of several", "cancel a future", "await a promise", "select a future", "select a promise",
	} {
		_, err := run(t, e, thief, how)
		if err == nil || !strings.Contains(err.Error(), `belongs to run "the-owner"`) {
			t.Errorf("%s of another run: got %v", how, err)
		}
	}
}

func never2(ctx stet.Context) (int, error) { return 0, stet.Sleep(ctx, "for ever", 1<<40) }

// TestMisuseSaysWhatToDo: what cannot be meant is refused at once, with a text that says
// what to do.
func TestMisuseSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := stet.Define("misuse", func(ctx stet.Context, how string) (int, error) {
		nothing := func(context.Context) error { return nil }
		switch how {
		case "a step without a function":
			return stet.Step[int](ctx, "s", nil)
		case "a Do without a function":
			return 0, stet.Do(ctx, "s", nil)
		case "a branch without a function":
			return stet.Go[int](ctx, "b", nil).Await(ctx)
		case "a map without a function":
			_, err := stet.Map[int, int](ctx, "m", []int{1}, nil)
			return 0, err
		case "a loop without a function":
			return stet.Loop[int, int](ctx, "l", 0, nil)
		case "a zero context":
			return 0, stet.Do(stet.Context{}, "s", nothing)
		case "the time of a zero context":
			return int(stet.Now(stet.Context{}).Unix()), nil
		case "one key at two places":
			if err := stet.Do(ctx, "same", nothing, stet.Key("k")); err != nil {
				return 0, err
			}
			return 0, stet.Do(ctx, "same", nothing, stet.Key("k"))
		}
		return 0, errors.New("nobody knows " + how)
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	for how, text := range map[string]string{
		"a step without a function":   `step "s": the function is nil`,
		"a Do without a function":     `step "s": the function is nil`,
		"a branch without a function": `branch "b": the function is nil`,
		"a map without a function":    `map "m": the function is nil`,
		"a loop without a function":   `loop "l": the function is nil`,
		"a zero context":              "zero stet.Context",
		"the time of a zero context":  "zero stet.Context",
		"one key at two places":       "give each place its own name",
	} {
		_, err := run(t, e, w, how)
		if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "attempts") {
			t.Errorf("%s: got %v; want %q, at once", how, err, text)
		}
	}
}

// circular wraps itself.
type circular struct{ joins bool }

func (c *circular) Error() string { return "a circle" }
func (c *circular) Unwrap() error {
	return &single{c}
}

type single struct{ c *circular }

func (s *single) Error() string { return "a circle" }

func (s *single) Unwrap() []error {
	if s.c.joins {
		return []error{s.c, s.c, s.c}
	}
	return []error{s.c}
}

// TestErrorsThatWrapThemselves: an error whose chain is a circle is recorded like any
// other, and does not end the process.
func TestErrorsThatWrapThemselves(t *testing.T) {
	t.Parallel()
	w := stet.Define("circle", func(ctx stet.Context, joins bool) (int, error) {
		var err error = &circular{joins}
		stepErr := stet.Do(ctx, "s", func(context.Context) error { return err }, stet.Retry{Attempts: 2, First: 1})
		if stepErr == nil {
			return 0, errors.New("the step has succeeded")
		}
		branch := stet.Go(ctx, "b", func(stet.Context) (int, error) { return 0, err })
		if _, got := branch.Await(ctx); got != err {
			return 0, fmt.Errorf("the branch has failed with %v", got)
		}
		return 0, err
	})
	e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
	for _, joins := range []bool{false, true} {
		if _, err := run(t, e, w, joins); err == nil || !strings.HasSuffix(err.Error(), "failed: a circle") {
			t.Errorf("joins %v: got %v", joins, err)
		}
	}
}
