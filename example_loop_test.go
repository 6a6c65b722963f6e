package stet_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// pageAfter returns the page of a feed after an item, and whether it is the last.
func pageAfter(item int) (items []int, last bool) { return []int{item + 1, item + 2}, item == 8 }

// A Loop is for work without an end: what it knows of its past is its state, and
// the history of old iterations is pruned.
func ExampleLoop() {
	type page struct {
		Items []int
		Last  bool
	}
	type cursor struct{ After, Sum int }

	poll := stet.Define("poll", func(ctx stet.Context, _ int) (int, error) {
		return stet.Loop(ctx, "pages", cursor{}, func(ctx stet.Context, c cursor) (next stet.Next[cursor, int], err error) {
			p, err := stet.Step(ctx, "fetch", func(context.Context) (page, error) {
				items, last := pageAfter(c.After)
				return page{items, last}, nil
			})
			if err != nil {
				return next, err
			}
			for _, item := range p.Items {
				c.After, c.Sum = item, c.Sum+item
			}
			if p.Last {
				return next.Break(c.Sum), nil
			}
			if err := stet.Sleep(ctx, "pause", time.Millisecond); err != nil {
				return next, err
			}
			return next.Continue(c), nil
		})
	})
	engine, stop := background(poll)
	defer stop()

	fmt.Println(result(engine, poll, 0))
	// Output: 55 <nil>
}

// Every and Keep say how often the state is committed and how many iterations
// keep their history.
func ExampleLoopOptions() {
	count := stet.Define("count", func(ctx stet.Context, n int) (int, error) {
		return stet.Loop(ctx, "ticks", 0, func(ctx stet.Context, i int) (next stet.Next[int, int], err error) {
			if err := stet.Do(ctx, "tick", func(context.Context) error { return nil }); err != nil {
				return next, err
			}
			if i++; i == n {
				return next.Break(i), nil
			}
			return next.Continue(i), nil
		}, stet.LoopOptions{Every: 5, Keep: 2})
	})
	engine, stop := background(count)
	defer stop()

	ctx := context.Background()
	run, err := count.Start(ctx, engine, 101)
	if err != nil {
		panic(err)
	}
	fmt.Println(run.Wait(ctx))
	history, err := engine.Runs().History(ctx, run.ID(), stet.HistoryQuery{})
	if err != nil {
		panic(err)
	}
	for _, e := range history {
		fmt.Println(e.Location, e.Kind)
	}
	// Output:
	// 101 <nil>
	// ticks loop
	// ticks/~98 loop
	// ticks/~98/tick step
	// ticks/~99/tick step
	// ticks/~100/tick step
}
