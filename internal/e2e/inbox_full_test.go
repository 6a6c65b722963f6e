package e2e_test

import (
	"errors"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestAnInboxIsFull: a run that receives nothing takes as many messages and updates as
// MaxInbox says. What code sends is not refused.
func TestAnInboxIsFull(t *testing.T) {
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, other store.Store) {
		w := stet.Define("slow", func(ctx stet.Context, _ int) (int, error) {
			if _, err := counter.Receive(ctx); err != nil {
				return 0, err
			}
			n := 0
			for range 4 {
				if _, err := word.Receive(ctx, stet.Named("take")); err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		})
		sender := stet.Define("sender", func(ctx stet.Context, _ int) (int, error) {
			return 0, word.SendFrom(ctx, "r", "from code")
		})
		cfg.MaxInbox = 3
		ctx := testContext(t)
		p := startProcess(t, cfg.Store, with(cfg, w, sender))
		r := begin(t, p.Engine, w, 0, stet.ID("r"))
		for range 3 {
			if err := word.Send(ctx, p.Engine, "r", "x"); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := word.Send(ctx, p.Engine, "r", "y"); !errors.Is(err, stet.ErrInboxFull) {
				t.Errorf("a fourth message: %v", err)
			}
		}
		if _, err := stet.Update[int, int]("u").Call(ctx, p.Engine, "r", 1); !errors.Is(err, stet.ErrInboxFull) {
			t.Errorf("an update: %v", err)
		}
		if _, err := run(t, p.Engine, sender, 0); err != nil {
			t.Errorf("what code sends: %v", err)
		}
		// Another process knows nothing of the inbox yet.
		if err := counter.Send(ctx, client(t, other), "r", 1); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Wait(ctx); err != nil || got != 4 {
			t.Errorf("got %d, %v", got, err)
		}
		if list := letters(t, p.Engine, store.DeadFilter{}); len(list) != 0 {
			t.Errorf("there are letters: %+v", list)
		}
	})
}
