package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestWhatASweptChildGaveStands: a parent that awaits a child again has what is recorded of
// its end, if the child was deleted meanwhile; results of any size, and failures.
func TestWhatASweptChildGaveStands(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small": 3, "large": 100_000, "failed": 0} {
		for _, how := range []string{"rewind", "rewind twice", "fork", "rewind, the child is kept"} {
			t.Run(name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					keep := stet.KeepFor(stet.AtOnce)
					if strings.Contains(how, "kept") {
						keep = stet.KeepFor(stet.None)
					}
					child := stet.Define("child", func(ctx stet.Context, _ string) (string, error) {
						if size == 0 {
							return "", errors.New("no luck")
						}
						return strings.Repeat("x", size), nil
					}, keep)
					times := 0
					parent := stet.Define("parent", func(ctx stet.Context, _ string) (string, error) {
						c, err := child.Go(ctx, "")
						if err != nil {
							return "", err
						}
						if err := stet.Do(ctx, "a", func(context.Context) error { times++; return nil }); err != nil {
							return "", err
						}
						if err := stet.Sleep(ctx, "rest", time.Minute); err != nil {
							return "", err
						}
						got, err := c.Await(ctx)
						return got, err
					}, stet.KeepFor(stet.None))
					served(t, stet.Config{
						Store: memory.New(), Workflows: []stet.Definition{child, parent},
					}, func(e *stet.Engine) {
						r := begin(t, e, parent, "")
						want, wantErr := r.Wait(t.Context())
						time.Sleep(48 * time.Hour)
						id := r.ID()
						switch {
						case how == "fork":
							var err error
							if id, err = e.Runs().Fork(t.Context(), id, "a", stet.Act{}); err != nil {
								t.Fatal(err)
							}
						default:
							for range 1 + strings.Count(how, "twice") {
								if ok, err := e.Runs().Rewind(t.Context(), id, "a", stet.Act{}); !ok {
									t.Fatal(err)
								}
								if _, err := e.Runs().Wait(t.Context(), id); err != nil {
									t.Fatal(err)
								}
							}
						}
						again := parent.Handle(e, id)
						got, err := again.Wait(t.Context())
						if got != want || (err == nil) != (wantErr == nil) ||
							err != nil && !strings.Contains(err.Error(), "no luck") {
							t.Errorf("it gave %d bytes, %v; want %d, %v", len(got), err, len(want), wantErr)
						}
						if want := 2 + strings.Count(how, "twice"); times != want {
							t.Errorf("the step was executed %d times, want %d", times, want)
						}
						runs, _, err := e.Runs().List(t.Context(), store.Filter{Workflows: []string{"child"}, Limit: 10})
						if err != nil || (len(runs) > 0) != strings.Contains(how, "kept") {
							t.Errorf("the children are %+v, %v", runs, err)
						}
					})
				})
			})
		}
	}
}
