package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// listing counts the queries of a store.
type listing struct {
	store.Store
	lists atomic.Int64
}

func (l *listing) List(ctx context.Context, f store.Filter) (store.Page, error) {
	l.lists.Add(1)
	return l.Store.List(ctx, f)
}

// TestManyWaitElsewhere waits in a process that owns nothing for the ends of many runs:
// each gets its run's result, and what the owner does costs the waiting process a few
// queries, not one for each that waits.
func TestManyWaitElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const runs, others = 100, 50
		db := memory.New()
		word := stet.Message[string]("word")
		w := stet.Define("wait", func(ctx stet.Context, _ int) (string, error) { return word.Receive(ctx) })
		owner := serve(t, stet.Config{Store: db, Workflows: []stet.Definition{w}})
		outside := &listing{Store: db.Join()}
		client, err := stet.New(t.Context(), stet.Config{Store: outside, Poll: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		var waits sync.WaitGroup
		for i := range runs {
			id := fmt.Sprint("run-", i)
			if _, err := w.Start(t.Context(), owner, 0, stet.ID(id)); err != nil {
				t.Fatal(err)
			}
			waits.Go(func() {
				if got, err := w.Handle(client, id).Wait(t.Context()); err != nil || got != id {
					t.Errorf("expected %s, found %q: %v", id, got, err)
				}
			})
		}
		synctest.Wait()
		before := outside.lists.Load()
		for i := range others {
			if _, err := w.Start(t.Context(), owner, 0, stet.ID(fmt.Sprint("other-", i))); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if n := outside.lists.Load() - before; n > 10*others {
			t.Errorf("%d starts elsewhere cost %d queries; expected a few each", others, n)
		}
		for i := range runs {
			if err := word.Send(t.Context(), owner, fmt.Sprint("run-", i), fmt.Sprint("run-", i)); err != nil {
				t.Fatal(err)
			}
		}
		waits.Wait()
	})
}
