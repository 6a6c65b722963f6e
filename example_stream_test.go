package stet_test

import (
	"context"
	"fmt"

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
