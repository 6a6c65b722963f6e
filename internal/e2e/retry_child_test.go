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

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// family3 are three generations, of which the youngest fails until it is fixed. It returns the workflow of the
// oldest, all workflows, and how often each step was executed.
func family3(fixed *atomic.Bool, undoes bool) (
	oldest *stet.Workflow[int, int], all []stet.Definition, did func() string,
) {
	counts := make([]atomic.Int64, 3)
	step := func(ctx stet.Context, level int) error {
		if undoes && level == 2 {
			return stet.Do(ctx, "before", func(context.Context) error { counts[level].Add(1); return nil },
				stet.UndoDo(func(context.Context) error { return nil }))
		}
		return stet.Do(ctx, "before", func(context.Context) error { counts[level].Add(1); return nil })
	}
	child := stet.Define("child", func(ctx stet.Context, x int) (int, error) {
		if err := step(ctx, 2); err != nil {
			return 0, err
		}
		return stet.Step(ctx, "pay", func(context.Context) (int, error) {
			if !fixed.Load() {
				return 0, stet.Permanent(errors.New("no money"))
			}
			return x, nil
		})
	})
	parent := stet.Define("parent", func(ctx stet.Context, x int) (int, error) {
		if err := step(ctx, 1); err != nil {
			return 0, err
		}
		paid, err := stet.Map(ctx, "each", []int{x, x + 1}, func(ctx stet.Context, x int) (int, error) {
			return child.Call(ctx, x)
		})
		if err != nil {
			return 0, err
		}
		return paid[0] + paid[1], nil
	})
	oldest = stet.Define("oldest", func(ctx stet.Context, x int) (int, error) {
		if err := step(ctx, 0); err != nil {
			return 0, err
		}
		return parent.Call(ctx, x)
	})
	return oldest, []stet.Definition{oldest, parent, child}, func() string {
		return fmt.Sprint(counts[0].Load(), counts[1].Load(), counts[2].Load())
	}
}

// failed returns the runs of a store that have failed, by workflow and ID.
func failed(t *testing.T, e *stet.Engine) (ids []string) {
	t.Helper()
	runs, _, err := e.Runs().List(t.Context(), store.Filter{Statuses: []store.Status{store.Failed}, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	return ids
}

// TestARetryReachesFailedChildren: the retry of a run that has failed because of its child, and that because of its
// own, is one act: all of them go on, each with its audit. The preview has the IDs. What has succeeded is not
// executed again.
func TestARetryReachesFailedChildren(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"retry", "resume", "the child first"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var fixed atomic.Bool
				w, all, did := family3(&fixed, false)
				ctx := t.Context()
				e := serve(t, stet.Config{Workflows: all})
				var opts []stet.StartOption
				if how == "resume" {
					opts = append(opts, stet.StallOnFailure)
				}
				run, err := w.Start(ctx, e, 3, append(opts, stet.ID("r"))...)
				if err != nil {
					t.Fatal(err)
				}
				untilRun(t, e, "r", func(info *stet.RunInfo) bool {
					return info.Status == store.Failed || info.Status == store.Stalled
				})
				synctest.Wait()
				others := slices.DeleteFunc(failed(t, e), func(id string) bool { return id == "r" })
				if len(others) < 2 {
					t.Fatalf("%q have failed besides the oldest", others)
				}
				fixed.Store(true)
				if how == "the child first" {
					for _, id := range others {
						if info, err := e.Runs().Info(ctx, id); err != nil || info.Workflow != "child" {
							continue
						}
						if _, err := e.Runs().Retry(ctx, id, stet.Act{}); err != nil {
							t.Fatal(err)
						}
						if _, err := e.Runs().Wait(ctx, id); err != nil {
							t.Fatal(err)
						}
					}
				}
				if how != "resume" {
					p, err := e.Runs().Preview(ctx, "r", store.ItemRetry, "")
					if err != nil {
						t.Fatal(err)
					}
					want := failed(t, e)
					want = slices.DeleteFunc(want, func(id string) bool { return id == "r" })
					if got := slices.Sorted(slices.Values(p.Retried)); !slices.Equal(got, want) {
						t.Errorf("the preview retries %q, want %q", got, want)
					}
				}
				act := e.Runs().Retry
				if how == "resume" {
					act = e.Runs().Resume
				}
				retried := slices.DeleteFunc(failed(t, e), func(id string) bool { return id == "r" })
				if _, err := act(ctx, "r", stet.Act{By: "ada", Why: "the bank is back"}); err != nil {
					t.Fatal(err)
				}
				if got, err := run.Wait(ctx); err != nil || got != 7 {
					t.Fatalf("got %d, %v", got, err)
				}
				if got := did(); !strings.HasPrefix(got, "1 1 ") { // a child that was cancelled is begun again
					t.Errorf("steps were executed %s times", got)
				}
				if left := failed(t, e); len(left) > 0 {
					t.Errorf("%q are failed", left)
				}
				for _, id := range retried {
					audit, err := e.Runs().Audit(ctx, id)
					if err != nil || len(audit) != 1 || audit[0].Who != "ada" || audit[0].Verb != "retry" ||
						!strings.Contains(audit[0].Why, "the bank is back") {
						t.Errorf("the audit of %s is %+v, %v", id, audit, err)
					}
				}
			})
		})
	}
}

// TestARetryThatGoesBackToALostChildIsRefused, with the ID of the child: it was undone, or cancelled.
func TestARetryThatGoesBackToALostChildIsRefused(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"undone", "cancelled"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var fixed atomic.Bool
				w, all, _ := family3(&fixed, true)
				ctx := t.Context()
				if how == "cancelled" {
					waits := stet.Define("child", func(ctx stet.Context, _ int) (int, error) {
						_, err := word.Receive(ctx)
						return 0, err
					})
					all[2] = waits
				}
				e := serve(t, stet.Config{Workflows: all})
				if _, err := w.Start(ctx, e, 3, stet.ID("r")); err != nil {
					t.Fatal(err)
				}
				if how == "cancelled" {
					synctest.Wait()
					runs, _, err := e.Runs().List(ctx, store.Filter{Workflows: []string{"child"}, Limit: 10})
					if err != nil || len(runs) != 2 {
						t.Fatalf("%d children, %v", len(runs), err)
					}
					if _, err := e.Runs().Cancel(ctx, runs[0].ID, stet.Act{}); err != nil {
						t.Fatal(err)
					}
				}
				untilRun(t, e, "r", func(info *stet.RunInfo) bool { return info.Status == store.Failed })
				fixed.Store(true)
				_, err := e.Runs().Retry(ctx, "r", stet.Act{})
				if !errors.Is(err, stet.ErrRefused) || !strings.Contains(err.Error(), "child ") ||
					!strings.Contains(err.Error(), "rewind") {
					t.Errorf("the retry is answered with %v", err)
				}
				if _, previewed := e.Runs().Preview(ctx, "r", store.ItemRetry, ""); !errors.Is(previewed, stet.ErrRefused) {
					t.Errorf("the preview is answered with %v", previewed)
				}
				if info, err := e.Runs().Info(ctx, "r"); err != nil || info.Status != store.Failed {
					t.Errorf("the run is %s, %v", info.Status, err)
				}
			})
		})
	}
}
