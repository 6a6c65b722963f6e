package stet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
)

// A run assigns the promise of another one as part of its commit: once, whatever crashes.
func ExampleResolveFrom() {
	clerk := stet.Define("clerk", func(ctx stet.Context, token string) (string, error) {
		return "signed", stet.ResolveFrom(ctx, token, "the clerk")
	})
	order := stet.Define("order", func(ctx stet.Context, _ int) (string, error) {
		signature, err := stet.NewPromise[string](ctx, "signature")
		if err != nil {
			return "", err
		}
		if _, err := clerk.Detach(ctx, signature.Token()); err != nil {
			return "", err
		}
		name, err := signature.Await(ctx)
		return "signed by " + name, err
	})
	engine, stop := background(order, clerk)
	defer stop()

	fmt.Println(result(engine, order, 50))
	// Output: signed by the clerk <nil>
}

// Where a value is refused the promise is rejected.
func ExampleRejectFrom() {
	check := stet.Define("check", func(ctx stet.Context, token string) (string, error) {
		return "refused", stet.RejectFrom(ctx, token, errors.New("no such customer"))
	})
	order := stet.Define("order", func(ctx stet.Context, _ int) (string, error) {
		checked, err := stet.NewPromise[string](ctx, "checked")
		if err != nil {
			return "", err
		}
		if _, err := check.Detach(ctx, checked.Token()); err != nil {
			return "", err
		}
		_, err = checked.Await(ctx)
		return fmt.Sprint("no order: ", err), nil
	})
	engine, stop := background(order, check)
	defer stop()

	fmt.Println(result(engine, order, 50))
	// Output: no order: no such customer <nil>
}

// An update is part of the commit of the run that sends it. Who wants the answer asks for it with
// the key, from a step.
func ExampleUpdate_SendFrom() {
	raise := stet.Update[int, int]("raise")
	account := stet.Define("account", func(ctx stet.Context, limit int) (int, error) {
		r, err := raise.Receive(ctx)
		if err != nil {
			return 0, err
		}
		limit += r.Value
		return limit, r.Answer(ctx, limit)
	})
	clerk := stet.Define("clerk", func(ctx stet.Context, runID string) (string, error) {
		key, err := raise.SendFrom(ctx, runID, 50)
		if err != nil {
			return "", err
		}
		limit, err := stet.Step(ctx, "answer", func(ctx context.Context) (int, error) {
			return raise.Call(ctx, stet.EngineOf(ctx), runID, 50, key)
		})
		return fmt.Sprint("the limit is ", limit), err
	})
	engine, stop := background(account, clerk)
	defer stop()

	run, err := account.Start(context.Background(), engine, 100)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result(engine, clerk, run.ID()))
	fmt.Println(run.Wait(context.Background()))
	// Output:
	// the limit is 150 <nil>
	// 150 <nil>
}
