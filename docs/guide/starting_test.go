package guide_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
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
