package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store"
)

// saying is a child of two steps and a suspension in between.
var saying = stet.Define("saying", func(ctx stet.Context, text string) (string, error) {
	a, err := say(ctx, "first", text)
	if err != nil {
		return "", err
	}
	if err := stet.Sleep(ctx, "pause", 2*time.Second); err != nil {
		return "", err
	}
	b, err := say(ctx, "second", "!")
	return a + b, err
})

// childCases are workflows with children, killed at every commit of theirs and
// of their children.
var childCases = []crashCase{
	{
		name: "awaited, failing, detached", want: "one! two! three! failed gone; 5 children",
		workflow: func(engine func() *stet.Engine) *stet.Workflow[string, string] {
			return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
				one, err := saying.Call(ctx, "one")
				if err != nil {
					return "", err
				}
				two, err := saying.Go(ctx, "two", stet.Named("two"))
				if err != nil {
					return "", err
				}
				id, err := saying.Detach(ctx, "three", stet.Named("three"))
				if err != nil {
					return "", err
				}
				words := []string{one}
				third, err := stet.Await[string](ctx, "third", id)
				if err != nil {
					return "", err
				}
				second, err := two.Await(ctx)
				if err != nil {
					return "", err
				}
				words = append(words, second, third)
				if _, err := declining.Call(ctx, ""); errors.Is(err, errRefusedCard) {
					words = append(words, "failed")
				}
				if _, err := stet.Await[string](ctx, "nobody", "no such run"); errors.Is(err, stet.ErrNotFound) {
					words = append(words, "gone")
				}
				if _, err := saying.Go(ctx, "not awaited", stet.Named("dropped")); err != nil {
					return "", err
				}
				n, err := countChildren(ctx, engine)
				return fmt.Sprintf("%s; %d children", strings.Join(words, " "), n), err
			})
		},
	},
	{
		name: "with IDs of their own", want: "one! two! again; 2 children",
		workflow: func(engine func() *stet.Engine) *stet.Workflow[string, string] {
			return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
				one, err := saying.Call(ctx, "one", stet.ID("kid-1"))
				if err != nil {
					return "", err
				}
				two, err := saying.Go(ctx, "two", stet.Named("two"), stet.ID("kid-2"))
				if err != nil {
					return "", err
				}
				second, err := two.Await(ctx)
				if err != nil {
					return "", err
				}
				third := "once"
				if again, err := saying.Call(ctx, "one", stet.Named("third"), stet.ID("kid-1")); err != nil {
					return "", err
				} else if again == one {
					third = "again"
				}
				n, err := countChildren(ctx, engine)
				return fmt.Sprintf("%s %s %s; %d children", one, second, third, n), err
			})
		},
	},
	{
		name: "in branches that lose", want: "quick! and 3 children, left! at last",
		workflow: func(engine func() *stet.Engine) *stet.Workflow[string, string] {
			return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
				var left *stet.RunFuture[string]
				_, winner, err := stet.Race(ctx,
					stet.Go(ctx, "slow", func(ctx stet.Context) (string, error) { return told.Call(ctx, "") }),
					stet.Go(ctx, "quick", func(ctx stet.Context) (v string, err error) {
						if left, err = saying.Go(ctx, "left", stet.Named("left"), stet.LeaveChild); err != nil {
							return "", err
						}
						return saying.Call(ctx, "quick")
					}))
				if err != nil {
					return "", err
				}
				n, err := countChildren(ctx, engine)
				if err != nil {
					return "", err
				}
				last, err := left.Await(ctx)
				return fmt.Sprintf("%s and %d children, %s at last", winner, n, last), err
			})
		},
	},
	{
		name: "cancelled with its parent", want: "cancelled",
		drive: func(ctx context.Context, e *stet.Engine, id string) error {
			for {
				info, err := e.Runs().Info(ctx, id)
				if err != nil {
					return err
				}
				if info.Status == store.Suspended && len(info.WaitsFor) > 0 && info.WaitsFor[0].Kind == "child" {
					break
				}
				time.Sleep(time.Millisecond)
			}
			_, err := e.Runs().Cancel(ctx, id, stet.Act{Why: "enough"})
			return err
		},
		workflow: func(func() *stet.Engine) *stet.Workflow[string, string] {
			return stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
				o, err := told.Go(ctx, "")
				if err != nil {
					return "", err
				}
				if _, err := o.Await(ctx); !errors.Is(err, stet.ErrCancelled) {
					return "", fmt.Errorf("the child has ended: %w", err)
				}
				// The child has been cancelled, and its end can be waited for.
				_, err = stet.Await[string](stet.WithoutCancel(ctx), "its end", o.RunID(ctx))
				if !errors.Is(err, stet.ErrCancelled) {
					return "", fmt.Errorf("the child has ended: %w", err)
				}
				return "", err
			})
		},
	},
}

func countChildren(ctx stet.Context, engine func() *stet.Engine) (int, error) {
	return stet.Step(ctx, "count", func(c context.Context) (int, error) {
		info, err := engine().Runs().Info(c, stet.RunID(ctx))
		if err != nil {
			return 0, err
		}
		page, err := engine().Store().List(c, store.Filter{Parent: info.Number})
		return len(page.Runs), err
	})
}

// TestCrashAtEveryCommitOfAFamily kills the process at each commit of parents and children. No child is started twice,
// none is lost, and every end is delivered once.
func TestCrashAtEveryCommitOfAFamily(t *testing.T) {
	t.Parallel()
	for _, s := range testStores {
		for _, c := range childCases {
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				var current atomic.Pointer[stet.Engine]
				out, err := stettest.CrashEverywhere(t, c.workflow(current.Load), "",
					stettest.On(s.open), stettest.WithConfig(stet.Config{
						Workflows: []stet.Definition{saying, told, declining},
						Errors:    []stet.ErrorCode{stet.Sentinel("declined", errRefusedCard)},
					}),
					crashFaults(t, s.name),
					stettest.Driving(c.drive), stettest.Ready(func(e *stet.Engine) { current.Store(e) }))
				if errors.Is(err, stet.ErrCancelled) {
					out, err = "cancelled", nil
				}
				if err != nil || out != c.want {
					t.Errorf("the result is %q, %v; want %q", out, err, c.want)
				}
			})
		}
	}
}
