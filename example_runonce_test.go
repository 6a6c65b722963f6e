package stet_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// A function is called when somebody orders, and again when something is due. Nothing of it
// lives in between.
func ExampleEngine_RunOnce() {
	remind := stet.Define("remind", func(ctx stet.Context, customer string) (string, error) {
		order := func(context.Context) error { fmt.Println("thank you,", customer); return nil }
		if err := stet.Do(ctx, "confirm", order); err != nil {
			return "", err
		}
		if err := stet.Sleep(ctx, "until it is used", 2*time.Second); err != nil {
			return "", err
		}
		return stet.Step(ctx, "ask", func(context.Context) (string, error) { return "is all well, " + customer + "?", nil })
	})
	db := memory.New() // a store that several machines reach, such as Postgres

	call := func(begin func(ctx context.Context, engine *stet.Engine) error) (next time.Time, err error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // as long as a function may take
		defer cancel()
		engine, err := stet.New(ctx, stet.Config{
			Store: db, Workflows: []stet.Definition{remind}, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return time.Time{}, err
		}
		if err := begin(ctx, engine); err != nil {
			return time.Time{}, err
		}
		return engine.RunOnce(ctx)
	}

	next, err := call(func(ctx context.Context, engine *stet.Engine) error {
		_, err := remind.Start(ctx, engine, "Ada", stet.ID("order-1"))
		return err
	})
	fmt.Println("come back in seconds:", time.Until(next) > time.Second, err)

	time.Sleep(time.Until(next)) // a timer of the platform, or a cron job that compares
	next, err = call(func(context.Context, *stet.Engine) error { return nil })
	fmt.Println("nothing is planned:", next.IsZero(), err)

	_, err = call(func(ctx context.Context, engine *stet.Engine) error {
		fmt.Println(remind.Handle(engine, "order-1").Wait(ctx))
		return nil
	})
	fmt.Println(err)
	// Output:
	// thank you, Ada
	// come back in seconds: true <nil>
	// nothing is planned: true <nil>
	// is all well, Ada? <nil>
	// <nil>
}
