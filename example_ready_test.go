package stet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
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

// What a process has found when it took the store over.
func ExampleRecovered() {
	wait := stet.Define("wait", func(ctx stet.Context, _ int) (string, error) {
		return stet.Message[string]("word").Receive(ctx)
	})
	db, ctx := memory.New(), context.Background()
	process := func(work func(*stet.Engine)) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		engine, err := stet.New(ctx, stet.Config{
			Store: db, Workflows: []stet.Definition{wait}, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		ended := make(chan error)
		go func() { ended <- engine.Run(ctx) }()
		work(engine)
		stop()
		if err := <-ended; err != nil {
			fmt.Println(err)
		}
	}
	process(func(engine *stet.Engine) {
		for range 3 {
			if _, err := wait.Start(ctx, engine, 0); err != nil {
				fmt.Println(err)
			}
		}
		for engine.Stats().Parked < 3 {
			time.Sleep(time.Millisecond)
		}
	})
	process(func(engine *stet.Engine) {
		for engine.Stats().Recovered == nil { // some milliseconds
			time.Sleep(time.Millisecond)
		}
		found := engine.Stats().Recovered
		fmt.Println("ended cleanly:", found.Clean, "due:", found.Due, "suspended:", found.Live[store.Suspended])
	})
	// Output:
	// ended cleanly: true due: 0 suspended: 3
}
