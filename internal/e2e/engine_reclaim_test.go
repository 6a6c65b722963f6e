package e2e_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestVerbBeforeTheAnswerToTheEnd has a verb come when the end of a run, or its
// pause, is committed, and the run claimed for it before the process has heard
// that. The verb is answered.
func TestVerbBeforeTheAnswerToTheEnd(t *testing.T) {
	t.Parallel()
	fails := true
	for name, c := range map[string]struct {
		fails bool
		at    func(*store.Update) bool
		verb  func(context.Context, *stet.Engine) (bool, error)
		want  error
	}{
		"retry": {true, func(u *store.Update) bool { return u.Status == store.Failed }, func(ctx context.Context, e *stet.Engine) (bool, error) {
			fails = false
			return e.Runs().Retry(ctx, "r", stet.Act{})
		}, nil},
		"rewind": {false, func(u *store.Update) bool { return u.Status == store.Succeeded },
			func(ctx context.Context, e *stet.Engine) (bool, error) {
				return e.Runs().Rewind(ctx, "r", "s", stet.Act{})
			}, nil},
		"a retry of a run that has not failed": {false, func(u *store.Update) bool { return u.Status == store.Succeeded },
			func(ctx context.Context, e *stet.Engine) (bool, error) {
				return e.Runs().Retry(ctx, "r", stet.Act{})
			}, stet.ErrRefused},
		"resume of a paused run": {false, func(u *store.Update) bool { return u.Marks&store.Paused != 0 },
			func(ctx context.Context, e *stet.Engine) (bool, error) {
				return e.Runs().Resume(ctx, "r", stet.Act{})
			}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				fails = c.fails
				w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
					v, err := stet.Step(ctx, "s", func(context.Context) (string, error) {
						if fails {
							return "", errors.New("no")
						}
						return "yes", nil
					}, stet.Retry{Attempts: 1})
					if err != nil {
						return "", err
					}
					return v, stet.Sleep(ctx, "nap", 10*time.Second)
				})
				first := memory.New()
				outside := client(t, first.Join(), w)
				g := &gated{Store: first}
				asked := make(chan error, 1)
				var once sync.Once
				g.afterCommit = func(b *store.Batch) {
					for _, turn := range b.Turns {
						if turn.Update == nil || !c.at(turn.Update) {
							continue
						}
						once.Do(func() {
							go func() {
								_, err := c.verb(ctx, outside)
								asked <- err
							}()
							time.Sleep(time.Second) // the run is claimed meanwhile
						})
					}
				}
				e := serve(t, stet.Config{Store: g, Workflows: []stet.Definition{w}})
				if _, err := w.Start(ctx, e, "", stet.ID("r")); err != nil {
					t.Fatal(err)
				}
				if name == "resume of a paused run" {
					time.Sleep(time.Second)
					if _, err := e.Runs().Pause(ctx, "r", stet.Act{}); err != nil {
						t.Fatal(err)
					}
				}
				if err := <-asked; !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Fatalf("the verb gives %v, want %v", err, c.want)
				}
				if got, err := w.Handle(e, "r").Wait(ctx); err != nil || got != "yes" {
					t.Errorf("the run ends with %q, %v", got, err)
				}
			})
		})
	}
}
