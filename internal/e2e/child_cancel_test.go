package e2e_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestSecondCancelOfAChild cancels a child with the scope that has started it and
// again with its parent, by the same item, when the child has consumed that and is
// cleaning up in another activation. It goes on as if nothing had come.
func TestSecondCancelOfAChild(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, s store.Store) {
		cleaning, goOn := make(chan struct{}, 1), make(chan struct{})
		child := stet.Define("child", func(ctx stet.Context, _ int) (string, error) {
			err := stet.Sleep(ctx, "work", time.Hour)
			if !errors.Is(err, stet.ErrCancelled) {
				return "", err
			}
			ctx = stet.WithoutCancel(ctx)
			if _, err := never.Receive(ctx); err != nil { // and is evicted
				return "", err
			}
			return "", stet.Do(ctx, "clean", func(context.Context) error { cleaning <- struct{}{}; <-goOn; return nil })
		})
		parent := stet.Define("parent", func(ctx stet.Context, _ int) (string, error) {
			scope := stet.Go(ctx, "scope", func(ctx stet.Context) (string, error) {
				other, err := child.Go(ctx, 0)
				if err != nil {
					return "", err
				}
				_, err = word.Receive(ctx)
				return other.RunID(ctx), err
			})
			id, err := scope.Await(ctx)
			if err != nil {
				return "", err
			}
			_, err = word.Receive(ctx)
			return id, err
		})
		cfg.Workflows, cfg.MaxParkedBytes = []stet.Definition{child, parent}, stet.None
		serve(t, cfg)
		e := client(t, s, child, parent)
		ctx := testContext(t)
		r, err := parent.Start(ctx, e, 0)
		if err != nil {
			t.Fatal(err)
		}
		waitStatus(t, e, r.ID(), store.Suspended)
		send := func(m stet.Message[string], id string) {
			t.Helper()
			if err := m.Send(ctx, e, id, "go"); err != nil {
				t.Fatal(err)
			}
		}
		send(word, r.ID()) // the scope ends
		page, err := e.Store().List(ctx, store.Filter{Workflows: []string{"child"}})
		if err != nil || len(page.Runs) != 1 {
			t.Fatal(page, err)
		}
		id := page.Runs[0].ID
		for {
			info, err := e.Runs().Info(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			if info.Marks == store.Cancelling && info.Status == store.Suspended {
				break
			}
		}
		send(never, id)
		<-cleaning
		send(word, r.ID()) // the parent ends
		if _, err := r.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		close(goOn)
		if _, err := child.Handle(e, id).Wait(ctx); !errors.Is(err, stet.ErrCancelled) {
			t.Errorf("the child ends with %v", err)
		}
	})
}
