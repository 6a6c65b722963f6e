package e2e_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// TestAnInboxIsFull: a run that receives nothing takes as many messages and updates as
// MaxInbox says, whoever sends: with a start, or from code, which sees it in each replay. A
// process that executes nothing looks before its first message.
func TestAnInboxIsFull(t *testing.T) {
	t.Parallel()
	forEachStore(t, func(t *testing.T, cfg stet.Config, _ *gated, other store.Store) {
		w := stet.Define("slow", func(ctx stet.Context, _ int) (int, error) {
			if _, err := counter.Receive(ctx); err != nil {
				return 0, err
			}
			n := 0
			for range 3 {
				if _, err := word.Receive(ctx, stet.Named("take")); err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		})
		sender := stet.Define("sender", func(ctx stet.Context, _ int) (int, error) {
			err := word.SendFrom(ctx, "r", "from code")
			if again := stet.Do(ctx, "another", func(context.Context) error { return nil }); again != nil {
				return 0, again
			}
			return 0, err
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
		if _, err := w.Start(ctx, p.Engine, 0, stet.ID("r"),
			stet.FirstMessage(word, "z")); !errors.Is(err, stet.ErrInboxFull) {
			t.Errorf("a first message: %v", err)
		}
		s := begin(t, p.Engine, sender, 0)
		if _, err := s.Wait(ctx); !errors.Is(err, stet.ErrInboxFull) {
			t.Errorf("what code sends: %v", err)
		}
		replays(t, p.Engine, s.ID())
		small := client(t, other)
		if c, err := stet.New(ctx, stet.Config{Store: other, MaxInbox: 3}); err != nil {
			t.Fatal(err)
		} else if err := word.Send(ctx, c, "r", "one"); !errors.Is(err, stet.ErrInboxFull) {
			t.Errorf("the single message of a process: %v", err)
		}
		// A process with another limit.
		if err := counter.Send(ctx, small, "r", 1); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Wait(ctx); err != nil || got != 3 {
			t.Errorf("got %d, %v", got, err)
		}
		if list := letters(t, p.Engine, store.DeadFilter{}); len(list) != 0 {
			t.Errorf("there are letters: %+v", list)
		}
	})
}
