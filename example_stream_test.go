package stet_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// A run appends to a stream; a reader follows it live, and ends with the run. The
// position of the last item seen is where to go on another time.
func ExampleStream() {
	log := stet.Stream[string]("log")
	bake := stet.Define("bake", func(ctx stet.Context, _ int) (string, error) {
		for _, what := range []string{"knead", "rise", "bake"} {
			if err := stet.Do(ctx, what, func(context.Context) error { return nil }); err != nil {
				return "", err
			}
			if err := log.Append(ctx, what+" is done"); err != nil {
				return "", err
			}
		}
		return "bread", nil
	})
	engine, stop := background(bake)
	defer stop()
	ctx := context.Background()

	run, err := bake.Start(ctx, engine, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	for item, err := range log.Tail(ctx, engine, run.ID(), 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(item.Position, item.Value)
	}
	later, err := log.Items(ctx, engine, run.ID(), 2, 10)
	fmt.Println(len(later), err)
	// Output:
	// 1 knead is done
	// 2 rise is done
	// 3 bake is done
	// 1 <nil>
}

// A step's body emits items while it executes. Those of an attempt that fails stay, and a
// mark says where the next one begins.
func ExampleStream_Emit() {
	tokens := stet.Stream[string]("tokens")
	answer := stet.Define("answer", func(ctx stet.Context, _ int) (int, error) {
		return stet.Step(ctx, "ask the model", func(ctx context.Context) (int, error) {
			for _, token := range []string{"forty", "two"} {
				if err := tokens.Emit(ctx, token); err != nil {
					return 0, err
				}
				if stet.Attempt(ctx) == 1 {
					return 0, errors.New("connection lost")
				}
			}
			return 42, nil
		}, stet.Retry{First: time.Millisecond})
	})
	engine, stop := background(answer)
	defer stop()
	ctx := context.Background()

	run, err := answer.Start(ctx, engine, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	for item, err := range tokens.Tail(ctx, engine, run.ID(), 0) {
		switch {
		case err != nil:
			fmt.Println(err)
		case item.Again:
			fmt.Println(item.Position, "again, attempt", item.Attempt, "of", item.Location)
		default:
			fmt.Println(item.Position, item.Value)
		}
	}
	// Output:
	// 1 forty
	// 2 again, attempt 2 of ask the model
	// 3 forty
	// 4 two
}

// A stream without an end keeps its newest items. A reader that was away for longer is told
// how many it has missed.
func ExampleKeep() {
	ticks := stet.Stream[int]("ticks")
	count := stet.Define("count", func(ctx stet.Context, to int) (int, error) {
		for i := range to {
			if err := ticks.Append(ctx, i+1, stet.Keep(2)); err != nil {
				return i, err
			}
		}
		return to, nil
	})
	engine, stop := background(count)
	defer stop()
	ctx := context.Background()

	run, err := count.Start(ctx, engine, 100)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Wait(ctx))
	items, err := ticks.Items(ctx, engine, run.ID(), 10, 0) // after the tenth
	for _, item := range items {
		fmt.Println(item.Position, item.Value, "missed before it:", item.Skipped)
	}
	fmt.Println(err)
	// Output:
	// 100 <nil>
	// 99 99 missed before it: 88
	// 100 100 missed before it: 0
	// <nil>
}
