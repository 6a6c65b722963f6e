package stet_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// A process ends in the middle of a run; the next one goes on where it was. What
// is recorded is not executed again, and of a sleep only the remainder is slept.
func ExampleEngine_Run() {
	started := make(chan bool, 1)
	trial := stet.Define("trial", func(ctx stet.Context, customer string) (string, error) {
		welcome := func(context.Context) error { fmt.Println("welcome,", customer); started <- true; return nil }
		if err := stet.Do(ctx, "welcome", welcome); err != nil {
			return "", err
		}
		if err := stet.Sleep(ctx, "trial period", 50*time.Millisecond); err != nil {
			return "", err
		}
		return stet.Step(ctx, "offer", func(context.Context) (string, error) { return "an offer for " + customer, nil })
	})
	db := memory.New() // sqlite.Open, if it is to survive the process

	process := func(work func(ctx context.Context, engine *stet.Engine)) error {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		engine, err := stet.New(ctx, stet.Config{
			Store: db, Workflows: []stet.Definition{trial}, Logger: slog.New(slog.DiscardHandler),
			OnRecover: func(r stet.Recovery) { fmt.Println("a process takes over; the former one ended cleanly:", r.Clean) },
		})
		if err != nil {
			return err
		}
		ended := make(chan error)
		go func() { ended <- engine.Run(ctx) }()
		work(ctx, engine)
		stop()
		return <-ended
	}

	err := process(func(ctx context.Context, engine *stet.Engine) {
		if _, err := trial.Start(ctx, engine, "Ada", stet.ID("trial-of-ada")); err != nil {
			fmt.Println(err)
		}
		<-started
	})
	fmt.Println(err)
	err = process(func(ctx context.Context, engine *stet.Engine) {
		fmt.Println(trial.Handle(engine, "trial-of-ada").Wait(ctx))
	})
	fmt.Println(err)
	// Output:
	// a process takes over; the former one ended cleanly: true
	// welcome, Ada
	// <nil>
	// a process takes over; the former one ended cleanly: true
	// an offer for Ada <nil>
	// <nil>
}
