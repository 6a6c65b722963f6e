package stet_test

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
)

// The critical path is the one chain of operations that a run's time went to. What is not
// on it could be faster, and the run would not end earlier.
func ExampleRuns_Shape() {
	slow := make(chan struct{})
	nothing := func(context.Context) error { return nil }
	order := stet.Define("order", func(ctx stet.Context, _ string) (int, error) {
		if err := stet.Do(ctx, "charge", nothing); err != nil {
			return 0, err
		}
		fraud := stet.Go(ctx, "fraud", func(ctx stet.Context) (int, error) {
			//stetvet:ignore channel the code holds the run where the test wants it
			defer close(slow)
			return 1, stet.Do(ctx, "score", nothing)
		})
		pack := stet.Go(ctx, "pack", func(ctx stet.Context) (int, error) {
			return 1, stet.Do(ctx, "pick", func(context.Context) error { <-slow; return nil })
		})
		if _, err := stet.All(ctx, fraud, pack); err != nil {
			return 0, err
		}
		return 1, stet.Do(ctx, "notify", nothing)
	})
	engine, stop := background(order)
	defer stop()
	ctx := context.Background()

	run, err := order.Start(ctx, engine, "order-4711")
	if err == nil {
		_, err = run.Wait(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	shape, err := engine.Runs().Shape(ctx, run.ID())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print("path:")
	explained := shape.After
	for _, part := range shape.Path {
		fmt.Print(" ", part.Location)
		explained += part.Before + part.Took
	}
	fmt.Println()
	fmt.Println("explains all of the run's time:", explained == shape.To.Sub(shape.From))
	for _, part := range shape.Spent {
		explained -= part.Took
	}
	fmt.Println("says what all of it was spent on:", explained == 0)

	all := shape.Boxes[0]
	for i, stage := range all.Stages {
		fmt.Printf("stage %d:", i+1)
		for _, lane := range stage {
			for _, box := range lane {
				fmt.Print(" ", shape.Boxes[box].Location)
			}
			fmt.Print(";")
		}
		fmt.Println()
	}
	// Output:
	// path: charge pack/pick notify
	// explains all of the run's time: true
	// says what all of it was spent on: true
	// stage 1: charge;
	// stage 2: fraud; pack;
	// stage 3: notify;
}
