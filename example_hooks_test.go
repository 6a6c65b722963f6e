package stet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
)

// The process hears of the ends and the stalls of the runs that it executes.
func ExampleConfig_hooks() {
	heard := make(chan string)
	buy := stet.Define("buy", func(ctx stet.Context, item string) (string, error) {
		if item == "moon" {
			return "", errors.New("not for sale")
		}
		return item, nil
	})
	check := stet.Define("check", func(ctx stet.Context, _ string) (string, error) { panic("of the code") })
	engine, stop := backgroundWith(stet.Config{
		Workflows: []stet.Definition{buy, check},
		OnEnd:     func(run *stet.RunInfo) { heard <- fmt.Sprint(run.ID, " has ", run.Status, ": ", run.Err) },
		OnStall:   func(run *stet.RunInfo) { heard <- fmt.Sprint(run.ID, " is stalled by a ", run.Cause) },
	})
	defer stop()
	ctx := context.Background()

	for _, start := range []func() (*stet.Run[string], error){
		func() (*stet.Run[string], error) { return buy.Start(ctx, engine, "moon", stet.ID("order-1")) },
		func() (*stet.Run[string], error) { return buy.Start(ctx, engine, "tea", stet.ID("order-2")) },
		func() (*stet.Run[string], error) { return check.Start(ctx, engine, "", stet.ID("check-1")) },
	} {
		if _, err := start(); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(<-heard)
	}
	// Output:
	// order-1 has failed: run "order-1" failed: not for sale
	// order-2 has succeeded: <nil>
	// check-1 is stalled by a panic
}
