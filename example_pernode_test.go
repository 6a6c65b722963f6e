package stet_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/stet-run/stet"
)

// A node has two graphics cards, so that it renders two pages at a time, however many runs
// request it. With more nodes, more pages are rendered at a time.
func ExamplePerNode() {
	var busy, most atomic.Int32
	render := stet.Define("render", func(ctx stet.Context, pages []int) ([]string, error) {
		return stet.Map(ctx, "page", pages, func(ctx stet.Context, page int) (string, error) {
			return stet.Step(ctx, "render", func(context.Context) (string, error) {
				most.Store(max(most.Load(), busy.Add(1)))
				defer busy.Add(-1)
				return fmt.Sprint("page ", page), nil
			}, stet.PerNode{Name: "card", Limit: 2})
		})
	})
	engine, stop := background(render)
	defer stop()

	fmt.Println(result(engine, render, []int{1, 2, 3, 4, 5}))
	fmt.Println("at most two at a time:", most.Load() <= 2)
	// Output:
	// [page 1 page 2 page 3 page 4 page 5] <nil>
	// at most two at a time: true
}
