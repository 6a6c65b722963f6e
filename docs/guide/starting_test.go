package guide_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
	"github.com/stet-run/stet/store/memory"
)

func startOrder(ctx context.Context, e *stet.Engine, orders *stet.Workflow[Order, bool], o Order) error {
	run, err := orders.Start(ctx, e, o, stet.ID("order-"+o.ID), stet.Tags{"customer": o.Customer})
	if errors.Is(err, stet.ErrExists) {
		return fmt.Errorf("order %s was placed with other contents: %w", o.ID, err)
	}
	if err != nil {
		return err // nothing has changed, or the same start is safe to repeat
	}
	_, err = run.Info(ctx)
	return err
}

func TestStartOrder(t *testing.T) {
	orders := stet.Define("order", approve)
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{orders}}, func(t *testing.T, env *stettest.Env) {
		ctx, e := t.Context(), env.Engine
		for range 2 {
			if err := startOrder(ctx, e, orders, Order{ID: "1", Customer: "Ada"}); err != nil {
				t.Error(err)
			}
		}
		if err := startOrder(ctx, e, orders, Order{ID: "1", Customer: "Bob"}); !errors.Is(err, stet.ErrExists) {
			t.Errorf("got %v", err)
		}
	})
}

var Added = stet.Message[string]("added")

func addToCart(ctx context.Context, e *stet.Engine, carts *stet.Workflow[string, int], customer, sku string) error {
	_, err := carts.Start(ctx, e, customer, stet.ID("cart-"+customer), stet.ReplaceEnded, stet.FirstMessage(Added, sku))
	return err
}

func TestSendOrStart(t *testing.T) {
	carts := stet.Define("cart", func(ctx stet.Context, customer string) (int, error) {
		for n := range 2 {
			if _, err := Added.Receive(ctx); err != nil {
				return n, err
			}
		}
		return 2, nil
	})
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{carts}}, func(t *testing.T, env *stettest.Env) {
		for range 2 { // the second pair begins another run
			for _, sku := range []string{"cup", "plate"} {
				if err := addToCart(t.Context(), env.Engine, carts, "ada", sku); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := carts.Handle(env.Engine, "cart-ada").Wait(t.Context()); got != 2 || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
		}
	})
}

func handle(ctx context.Context, e *stet.Engine) (next time.Time, err error) {
	next, err = e.RunOnce(ctx)
	if errors.Is(err, stet.ErrHeld) {
		return next, nil // another process is at work: it does what is ready
	}
	return next, err
}

// TestHandle works by calls alone; one beside a process that works returns without an error.
func TestHandle(t *testing.T) {
	orders := stet.Define("order", func(ctx stet.Context, o Order) (bool, error) {
		return true, stet.Sleep(ctx, "pause", time.Hour)
	})
	db := memory.New()
	engine := func() *stet.Engine {
		e, err := stet.New(t.Context(), stet.Config{
			Store: db, Workflows: []stet.Definition{orders}, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := engine()
	if err := startOrder(t.Context(), e, orders, Order{ID: "1", Customer: "Ada"}); err != nil {
		t.Fatal(err)
	}
	next, err := handle(t.Context(), e)
	if d := time.Until(next); err != nil || d > time.Hour || d < 50*time.Minute {
		t.Errorf("to be called again after %s (%v); want an hour", d, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()
	for !e.Owner() {
		time.Sleep(time.Millisecond)
	}
	if next, err := handle(t.Context(), engine()); err != nil || next.Before(time.Now()) {
		t.Errorf("beside an owner: %s, %v", next, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
