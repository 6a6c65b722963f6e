package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
)

// bank is what the bodies of a run do outside: it books each key once.
type bank struct {
	mu       sync.Mutex
	booked   map[string]bool // charges, by key
	refunded int
	block    bool          // bodies do not return before their process dies
	busy     chan struct{} // a body has charged and does not return
}

func (b *bank) charge(ctx context.Context) (string, error) {
	b.mu.Lock()
	b.booked[stet.IdempotencyKey(ctx)] = true
	block := b.block
	b.mu.Unlock()
	if block {
		b.busy <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	}
	return "paid", nil
}

func (b *bank) refund(context.Context, string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refunded++
	return nil
}

// open returns how many charges were not refunded.
func (b *bank) open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.booked) - b.refunded
}

// kill is something that comes while no process works on a run whose process has died.
type kill struct {
	name string
	code func(*bank, stet.Context) (string, error)
	come func(ctx context.Context, e *stet.Engine, runID string) error
	owed []string // for whoever reads the end; nil: everything was undone
	opts []stet.DefineOption
}

func cancelRun(ctx context.Context, e *stet.Engine, runID string) error {
	return ask(ctx, e.Runs().Cancel, runID)
}

// ask requests something that is decided later. A machine that is too slow to make the request
// in the time that it has makes it again, with more.
func ask(ctx context.Context, verb func(context.Context, string, stet.Act) (bool, error), runID string) error {
	for limit := 200 * time.Millisecond; ; limit *= 2 {
		asking, cancel := context.WithTimeout(ctx, limit)
		_, err := verb(asking, runID, stet.Act{})
		cancel()
		switch {
		case errors.Is(err, stet.ErrPending):
			return nil
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			return fmt.Errorf("expected a request that is pending, found %w", err)
		}
	}
}

func pay(b *bank, ctx stet.Context, name string) (string, error) {
	return stet.Step(ctx, name, b.charge, stet.Undo(b.refund))
}

var kills = []kill{
	{
		name: "cancel in the first step",
		code: func(b *bank, ctx stet.Context) (string, error) { return pay(b, ctx, "pay") },
		come: cancelRun,
	},
	{
		name: "cancel in a later step",
		code: func(b *bank, ctx stet.Context) (string, error) {
			if err := stet.Do(ctx, "before", func(context.Context) error { return nil }); err != nil {
				return "", err
			}
			return pay(b, ctx, "pay")
		},
		come: cancelRun,
	},
	{
		name: "cancel in two branches",
		code: func(b *bank, ctx stet.Context) (string, error) {
			one := stet.Go(ctx, "one", func(ctx stet.Context) (string, error) { return pay(b, ctx, "pay") })
			two := stet.Go(ctx, "two", func(ctx stet.Context) (string, error) { return pay(b, ctx, "pay") })
			_, err := stet.All(ctx, one, two)
			return "", err
		},
		come: cancelRun,
	},
	{
		name: "longest run time",
		code: func(b *bank, ctx stet.Context) (string, error) { return pay(b, ctx, "pay") },
		come: func(ctx context.Context, _ *stet.Engine, _ string) error { rest(ctx, time.Second); return nil },
		opts: []stet.DefineOption{stet.MaxRunTime(time.Second)},
	},
	{
		name: "pause and cancel",
		code: func(b *bank, ctx stet.Context) (string, error) { return pay(b, ctx, "pay") },
		come: func(ctx context.Context, e *stet.Engine, runID string) error {
			return errors.Join(ask(ctx, e.Runs().Pause, runID), cancelRun(ctx, e, runID))
		},
	},
	{
		name: "terminate",
		code: func(b *bank, ctx stet.Context) (string, error) {
			if err := stet.Do(ctx, "before", func(context.Context) error { return nil }); err != nil {
				return "", err
			}
			return pay(b, ctx, "pay")
		},
		come: func(ctx context.Context, e *stet.Engine, runID string) error {
			return ask(ctx, e.Runs().Terminate, runID)
		},
		owed: []string{"pay"},
	},
}

// killed lets a process die while the body of a step with a compensation has had its effect.
// What comes before another process takes the run up, it is undone or listed.
func killed(t *testing.T, open Open) {
	for i := range kills {
		k := &kills[i]
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, open)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			b := &bank{booked: map[string]bool{}, block: true, busy: make(chan struct{})}
			paid := stet.Define("paid", func(ctx stet.Context, _ string) (string, error) { return k.code(b, ctx) }, k.opts...)
			first := w.calm(shortLease, paid)
			err := insist(ctx, func() error { _, err := paid.Start(ctx, w.outside, "", stet.ID("r")); return err })
			if err != nil {
				t.Fatal(err)
			}
			<-b.busy
			first.fault.die()
			first.stop()
			for ended := false; !ended; {
				select {
				case <-b.busy:
				case err := <-first.ended:
					t.Log("the killed process ends with", err)
					ended = true
				}
			}
			if err := k.come(ctx, w.outside, "r"); err != nil {
				t.Fatal(err)
			}
			b.mu.Lock()
			b.block = false
			b.mu.Unlock()
			second := w.calm(shortLease, paid)
			_, err = paid.Handle(w.outside, "r").Wait(ctx)
			var end *stet.RunError
			if !errors.Is(err, stet.ErrCancelled) || !errors.As(err, &end) || !slices.Equal(end.Owed, k.owed) {
				t.Errorf("the run ends with %v, %+v; expected it cancelled, with %q owed", err, end, k.owed)
			}
			if n := b.open(); n != len(k.owed) {
				t.Errorf("%d charges stand, expected %d", n, len(k.owed))
			}
			_ = second.end()
		})
	}
}
