package stet_test

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
)

// A run shows its progress under a name; anyone reads it, while the run goes on
// and afterwards.
func ExampleValue() {
	progress := stet.Value[int]("progress")
	load := stet.Define("load", func(ctx stet.Context, rows int) (string, error) {
		for done := 0; done < rows; done += 50 {
			if err := progress.Set(ctx, 100*done/rows); err != nil {
				return "", err
			}
			if err := stet.Do(ctx, "load 50 rows", func(context.Context) error { return nil }); err != nil {
				return "", err
			}
		}
		return "loaded", progress.Set(ctx, 100)
	})
	engine, stop := background(load)
	defer stop()
	ctx := context.Background()

	run, err := load.Start(ctx, engine, 200)
	if err != nil {
		fmt.Println(err)
		return
	}
	last := 0
	for percent, err := range progress.Watch(ctx, engine, run.ID()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		last = percent // draws a bar, say
	}
	fmt.Println("the last one seen is", last)
	fmt.Println(progress.Get(ctx, engine, run.ID()))
	// Output:
	// the last one seen is 100
	// 100 true <nil>
}
