// Package contexts is workflow code with a context that is not stet's.
package contexts

import (
	"context"
	"fmt"
	"time"

	"cases/contexts/flow"

	"github.com/stet-run/stet"
)

var _ = flow.Workflow("bad", bad)

func bad(ctx flow.Context, _ string) error {
	fmt.Println("begun") // want "log: fmt.Println"
	if err := byPointer(&ctx); err != nil {
		return err
	}
	n := 0
	_, err := flow.Once(ctx, "count", func() (int, error) {
		n++ // want "captured: the body of a step assigns to n"
		return n, nil
	})
	_ = stet.Sleep(ctx.Context, "rest", time.Second) // want "error: the error of stet.Sleep is dropped"
	func(inner flow.Context) {
		_ = ctx.Tenant // want "context: this function has a stet.Context of its own and uses the outer ctx"
	}(ctx)
	return err
}

func byPointer(ctx *flow.Context) error {
	if time.Now().Hour() > 12 { // want "clock: time.Now"
		return nil
	}
	return nil
}

func good(ctx flow.Context, _ string) error {
	if _, err := flow.Once(ctx, "now", func() (time.Time, error) { return time.Now(), nil }); err != nil {
		return err
	}
	if _, err := flow.Once(ctx, "later", later); err != nil {
		return err
	}
	return ctx.With("with", func(ctx *flow.Context) error {
		fmt.Println(ctx.Tenant, time.Now())
		return named(ctx)
	})
}

// goodGiven: what has a context.Context is a body wherever an operation gets it.
func goodGiven(ctx flow.Context, acts *activities) error {
	if _, err := flow.Call(ctx, acts.Charge, 1); err != nil {
		return err
	}
	_, err := flow.Call(ctx, refund, 1)
	return err
}

type activities struct{}

func (*activities) Charge(_ context.Context, n int) (int, error) { return n + time.Now().Day(), nil }

func refund(_ context.Context, n int) (int, error) { return n + time.Now().Day(), nil }

func alsoBad(ctx flow.Context) (int, error) {
	return refund(context.Background(), 1) // want "clock: refund → time.Now"
}

func later() (time.Time, error) { return time.Now(), nil }

func alsoGood(ctx flow.Context, _ string) error { return ctx.With("with", named) }

// named is the body of a step by what it is given to.
func named(ctx *flow.Context) error {
	fmt.Println(ctx.Tenant, time.Now())
	return nil
}
