package stet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
)

// What the handler of a readiness probe asks.
func ExampleEngine_Ready() {
	hello := stet.Define("hello", func(ctx stet.Context, name string) (string, error) { return "hello " + name, nil })
	engine, stop := background(hello)
	ctx := context.Background()
	fmt.Println("while Run works:", engine.Ready(ctx))
	stop()
	err := engine.Ready(ctx)
	fmt.Println(errors.Is(err, stet.ErrNotReady), err)
	// Output:
	// while Run works: <nil>
	// true not ready: expected Run to be under way, which executes workflows; it is not
}

// What a process has in memory, for a gauge.
func ExampleEngine_Stats() {
	began, end := make(chan bool), make(chan bool)
	wait := stet.Define("wait", func(ctx stet.Context, _ int) (int, error) {
		return 0, stet.Do(ctx, "step", func(context.Context) error {
			began <- true
			<-end
			return nil
		})
	})
	engine, stop := background(wait)
	defer stop()
	run, err := wait.Start(context.Background(), engine, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	<-began
	stats := engine.Stats()
	fmt.Println(stats.Executing, stats.Running, stats.Parked, stats.Shards["default"])
	close(end)
	_, err = run.Wait(context.Background())
	fmt.Println(err)
	// Output:
	// 1 1 0 1
	// <nil>
}
