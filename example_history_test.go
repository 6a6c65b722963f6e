package stet_test

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
)

// The history of a run is a tree of locations: branches, keys and occurrences are
// in the path. A key keeps the record of a call whose place may change.
func ExampleRuns_History() {
	nothing := func(context.Context) error { return nil }
	order := stet.Define("order", func(ctx stet.Context, lines []string) (int, error) {
		for _, line := range lines {
			if err := stet.Do(ctx, "reserve", nothing, stet.Key(line)); err != nil {
				return 0, err
			}
		}
		for range 2 {
			if err := stet.Do(ctx, "notify", nothing); err != nil {
				return 0, err
			}
		}
		shipping := stet.Go(ctx, "shipping", func(ctx stet.Context) (int, error) {
			return 1, stet.Do(ctx, "call", nothing)
		})
		return shipping.Await(ctx)
	})
	engine, stop := background(order)
	defer stop()
	ctx := context.Background()

	run, err := order.Start(ctx, engine, []string{"tea", "mugs"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := run.Wait(ctx); err != nil {
		fmt.Println(err)
	}
	entries, err := engine.Runs().History(ctx, run.ID(), stet.HistoryQuery{})
	for _, entry := range entries {
		fmt.Println(entry.Number, entry.Kind, entry.Location, entry.State)
	}
	fmt.Println(err)
	// Output:
	// 3 step notify done
	// 4 step notify#2 done
	// 2 step reserve/[mugs] done
	// 1 step reserve/[tea] done
	// 5 step shipping/call done
	// <nil>
}
