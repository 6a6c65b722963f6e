package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stet-run/stet"
)

// TestRetryOfAFunctionThatFailedByItself: once the code is fixed it goes on after what is
// recorded, nothing is executed again, and the audit has the error.
func TestRetryOfAFunctionThatFailedByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fixed, steps := false, 0
		w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
			n, err := stet.Step(ctx, "count", func(context.Context) (int, error) { steps++; return 3, nil })
			if err != nil {
				return "", err
			}
			if !fixed {
				return "", fmt.Errorf("no rule for %d", n)
			}
			return stet.Step(ctx, "say", func(context.Context) (string, error) { return fmt.Sprint("rule ", n), nil })
		})
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
		r := begin(t, e, w, "")
		for range 2 {
			if _, err := r.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "no rule for 3") {
				t.Fatalf("it fails with %v", err)
			}
			if ok, err := e.Runs().Retry(t.Context(), r.ID(), stet.Act{By: "ada"}); !ok {
				t.Fatal(err)
			}
		}
		if _, err := r.Wait(t.Context()); err == nil {
			t.Fatal("it is fixed by itself")
		}
		fixed = true
		if ok, err := e.Runs().Retry(t.Context(), r.ID(), stet.Act{By: "ada"}); !ok {
			t.Fatal(err)
		}
		if got, err := r.Wait(t.Context()); err != nil || got != "rule 3" || steps != 1 {
			t.Errorf("it gave %q, %v after %d executions of the step", got, err, steps)
		}
		audit, err := e.Runs().Audit(t.Context(), r.ID())
		const detail = "took back its end: the code goes on after its last completion; it had failed: no rule for 3; " +
			"it had ended failed at 20"
		if err != nil || len(audit) != 3 || !strings.HasPrefix(audit[2].Detail, detail) {
			t.Errorf("the audit is %+v, %v", audit, err)
		}
	})
}

// TestRetryOfABatchWhoseFailuresAreData: one retry tries all failed items again, and only
// these.
func TestRetryOfABatchWhoseFailuresAreData(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open, calls := false, map[int]int{}
		w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
			failures, err := stet.Map(ctx, "item", []int{1, 2, 3, 4, 5}, func(ctx stet.Context, n int) (string, error) {
				err := stet.Do(ctx, "load", func(context.Context) error {
					if calls[n]++; n > 2 && !open {
						return errors.New("closed")
					}
					return nil
				}, stet.Retry{Attempts: 1})
				if err != nil {
					return err.Error(), nil
				}
				return "", nil
			}, stet.MapLimit(1))
			if err != nil {
				return "", err
			}
			if all := strings.Join(failures, ""); all != "" {
				return "", fmt.Errorf("some have failed: %s", all)
			}
			return "all", nil
		})
		e := serve(t, stet.Config{Workflows: []stet.Definition{w}})
		r := begin(t, e, w, "")
		if _, err := r.Wait(t.Context()); err == nil {
			t.Fatal("the batch has not failed")
		}
		open = true
		if ok, err := e.Runs().Retry(t.Context(), r.ID(), stet.Act{}); !ok {
			t.Fatal(err)
		}
		if got, err := r.Wait(t.Context()); err != nil || got != "all" {
			t.Errorf("it gave %q, %v", got, err)
		}
		if fmt.Sprint(calls) != "map[1:1 2:1 3:2 4:2 5:2]" {
			t.Errorf("the items were loaded %v times", calls)
		}
	})
}
