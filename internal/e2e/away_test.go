package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// leaving is a store that is away for so many lists of runs.
type leaving struct {
	store.Store
	away atomic.Int64
}

func (l *leaving) List(ctx context.Context, f store.Filter) (store.Page, error) {
	if l.away.Add(-1) >= 0 {
		return store.Page{}, fmt.Errorf("%w: the server restarts", store.ErrUnavailable)
	}
	return l.Store.List(ctx, f)
}

// TestReadersGoOnWhileTheStoreIsAway from their first lookup on: Tail, Watch and Wait end with their context.
func TestReadersGoOnWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	shown := stet.Value[int]("shown")
	items := stet.Stream[int]("items")
	w := stet.Define("w", func(ctx stet.Context, _ string) (string, error) {
		return "end", errors.Join(shown.Set(ctx, 7), items.Append(ctx, 8))
	})
	for name, read := range map[string]func(context.Context, *stet.Engine) (int, error){
		"Watch": func(ctx context.Context, e *stet.Engine) (last int, err error) {
			for last, err = range shown.Watch(ctx, e, "r") {
			}
			return last - 7, err
		},
		"Tail": func(ctx context.Context, e *stet.Engine) (last int, err error) {
			for item, failed := range items.Tail(ctx, e, "r", 0) {
				last, err = item.Value-8, failed
			}
			return last, err
		},
		"Wait": func(ctx context.Context, e *stet.Engine) (int, error) {
			out, err := w.Handle(e, "r").Wait(ctx)
			return len(out) - 3, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, ctx := &leaving{Store: memory.New()}, context.Background()
				e := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{w}, Poll: time.Minute})
				if _, err := w.Start(ctx, e, "", stet.ID("r")); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				s.away.Store(3)
				if off, err := read(ctx, e); off != 0 || err != nil {
					t.Errorf("once the store is back: off by %d, %v", off, err)
				}
				s.away.Store(1 << 40)
				limited, cancel := context.WithTimeout(ctx, 10*time.Minute)
				defer cancel()
				begun := time.Now()
				_, err := read(limited, e)
				if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, store.ErrUnavailable) ||
					time.Since(begun) != 10*time.Minute {
					t.Errorf("a store that stays away: after %s %v", time.Since(begun), err)
				}
				s.away.Store(0)
			})
		})
	}
}
