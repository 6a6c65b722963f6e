package e2e_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestARepairHasItsTime: a run that is taken up long after its longest time goes on, is not
// cancelled and nothing of it is undone; it is cancelled when it takes that long again.
func TestARepairHasItsTime(t *testing.T) {
	t.Parallel()
	word, word2 := stet.Message[string]("word"), stet.Message[string]("word2")
	for _, c := range []struct {
		name    string
		stalls  bool
		option  stet.DefineOption
		takesUp func(ctx context.Context, e *stet.Engine, id string) (string, error)
	}{
		{"retry", false, stet.MaxRunTime(time.Hour), func(ctx context.Context, e *stet.Engine, id string) (string, error) {
			_, err := e.Runs().Retry(ctx, id, stet.Act{})
			return id, err
		}},
		{"rewind", false, stet.MaxRunTime(time.Hour), func(ctx context.Context, e *stet.Engine, id string) (string, error) {
			_, err := e.Runs().Rewind(ctx, id, "pay", stet.Act{})
			return id, err
		}},
		{"fork", false, stet.MaxRunTime(time.Hour), func(ctx context.Context, e *stet.Engine, id string) (string, error) {
			return e.Runs().Fork(ctx, id, "pay", stet.Act{})
		}},
		{"resume", true, stet.MaxRunTime(time.Hour), func(ctx context.Context, e *stet.Engine, id string) (string, error) {
			_, err := e.Runs().Resume(ctx, id, stet.Act{})
			return id, err
		}},
		{"resume after a long wait", true, stet.MaxSuspension(time.Hour),
			func(ctx context.Context, e *stet.Engine, id string) (string, error) {
				_, err := e.Runs().Resume(ctx, id, stet.Act{})
				return id, err
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Bool
				var undone atomic.Int64
				broken.Store(true)
				opts := []stet.DefineOption{c.option, stet.UndoOnCancel}
				if c.stalls {
					opts = append(opts, stet.StallOnFailure)
				}
				w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
					if err := stet.Do(ctx, "reserve", func(context.Context) error { return nil },
						stet.UndoDo(func(context.Context) error { undone.Add(1); return nil })); err != nil {
						return "", err
					}
					if err := stet.Do(ctx, "pay", func(context.Context) error {
						if broken.Load() {
							return errors.New("bank is closed")
						}
						return nil
					}, stet.Retry{Attempts: 1}); err != nil {
						return "", err
					}
					first, err := word.Receive(ctx)
					if err != nil {
						return "", err
					}
					second, err := word2.Receive(ctx)
					return first + second, err
				}, opts...)
				e := serve(t, stet.Config{Workflows: []stet.Definition{w}, LeaseTTL: 24 * time.Hour, Poll: time.Hour})
				r := begin(t, e, w, "")
				if _, err := e.Runs().Wait(t.Context(), r.ID()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(48 * time.Hour)
				broken.Store(false)
				id, err := c.takesUp(t.Context(), e, r.ID())
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(50 * time.Minute)
				if err := word.Send(t.Context(), e, id, "a"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if info, err := e.Runs().Info(t.Context(), id); err != nil || info.Status != store.Suspended || undone.Load() > 0 {
					t.Fatalf("after 50 minutes it is %+v, %v; %d are undone", info, err, undone.Load())
				}
				time.Sleep(2 * time.Hour)
				if info, err := e.Runs().Wait(t.Context(), id); err != nil || info.Status != store.Cancelled || undone.Load() != 1 {
					t.Errorf("after another two hours it is %s, %v; %d are undone", info.Status, err, undone.Load())
				}
			})
		})
	}
}
