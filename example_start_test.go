package stet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// An engine works until its context ends. Runs are started through it, from the
// same process or from another one on the same store.
func Example() {
	greet := stet.Define("greet", func(ctx stet.Context, name string) (string, error) {
		return stet.Step(ctx, "compose", func(context.Context) (string, error) { return "hello " + name, nil })
	})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine, err := stet.New(ctx, stet.Config{Store: memory.New(), Workflows: []stet.Definition{greet},
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	ended := make(chan error)
	go func() { ended <- engine.Run(ctx) }()

	run, err := greet.Start(ctx, engine, "Ada")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Wait(ctx))
	stop()
	fmt.Println(<-ended)
	// Output:
	// hello Ada <nil>
	// <nil>
}

// A run has one ID: a second start with the same ID and input gives the same
// run, with another input an error.
func ExampleID() {
	double := stet.Define("double", func(_ stet.Context, n int) (int, error) { return 2 * n, nil })
	engine, stop := background(double)
	defer stop()
	ctx := context.Background()

	for _, input := range []int{21, 21, 22} {
		run, err := double.Start(ctx, engine, input, stet.ID("order-42"))
		if err != nil {
			fmt.Println(errors.Is(err, stet.ErrExists))
			continue
		}
		fmt.Println(run.Wait(ctx))
	}
	// Output:
	// 42 <nil>
	// 42 <nil>
	// true
}
