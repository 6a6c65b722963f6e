package stet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
)

// A run that has failed is tried again from where it failed: what had succeeded is
// not executed again, and what failed goes out with the same idempotency key.
func ExampleRuns_Retry() {
	cardIsGood := false
	buy := stet.Define("buy", func(ctx stet.Context, _ string) (string, error) {
		if err := stet.Do(ctx, "reserve", func(context.Context) error { fmt.Println("reserving"); return nil }); err != nil {
			return "", err
		}
		return stet.Step(ctx, "charge", func(context.Context) (string, error) {
			if !cardIsGood {
				return "", stet.Permanent(errors.New("card declined"))
			}
			return "paid", nil
		})
	})
	engine, stop := background(buy)
	defer stop()
	ctx := context.Background()

	run, err := buy.Start(ctx, engine, "", stet.ID("order-42"))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = run.Wait(ctx)
	fmt.Println(err)
	cardIsGood = true
	fmt.Println(engine.Runs().Retry(ctx, "order-42", stet.Act{By: "ada", Why: "the bank has unlocked the card"}))
	fmt.Println(run.Wait(ctx))
	audit, err := engine.Runs().Audit(ctx, "order-42")
	fmt.Println(audit[0].Who, audit[0].Verb, audit[0].Why, err)
	// Output:
	// reserving
	// run "order-42" failed: step charge failed: card declined
	// true <nil>
	// paid <nil>
	// ada retry the bank has unlocked the card <nil>
}

// Rewind executes a part of a run anew; Fork does the same in a new run.
func ExampleRuns_Rewind() {
	price := 10
	quote := stet.Define("quote", func(ctx stet.Context, items int) (int, error) {
		each, err := stet.Step(ctx, "price", func(context.Context) (int, error) { return price, nil })
		return items * each, err
	})
	engine, stop := background(quote)
	defer stop()
	ctx := context.Background()

	run, err := quote.Start(ctx, engine, 3, stet.ID("q"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Wait(ctx))
	price = 11
	fmt.Println(engine.Runs().Rewind(ctx, "q", "price", stet.Act{Why: "the price was wrong"}))
	fmt.Println(run.Wait(ctx))
	price = 12
	fmt.Println(engine.Runs().Fork(ctx, "q", "price", stet.Act{Why: "what if"}, stet.ID("q-2")))
	fmt.Println(quote.Handle(engine, "q-2").Wait(ctx))
	fmt.Println(engine.Runs().EditFailure(ctx, "q", "price", errors.New("not for sale"), stet.Act{By: "ada"}))
	_, err = run.Wait(ctx)
	fmt.Println(err)
	// Output:
	// 30 <nil>
	// true <nil>
	// 33 <nil>
	// q-2 <nil>
	// 36 <nil>
	// true <nil>
	// run "q" failed: step price failed: not for sale
}
