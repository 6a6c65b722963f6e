package stet_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// deploy runs an engine with one workflow on db for as long as work takes.
func deploy(db store.Store, w stet.Definition, work func(ctx context.Context, engine *stet.Engine) error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine, err := stet.New(ctx, stet.Config{Store: db, Workflows: []stet.Definition{w},
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- engine.Run(ctx) }()
	if err := work(ctx, engine); err != nil {
		fmt.Println(err)
	}
	stop()
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
}

// A check is added to a workflow in front of a step that runs have already made.
// Runs that have passed the place go on without it; new ones make it.
func ExampleVersion() {
	paid := stet.Message[int]("paid")
	reserved := make(chan bool, 2)
	// pay and what follows is the same in both.
	order := func(ctx stet.Context, customer string) (string, error) {
		err := stet.Do(ctx, "reserve", func(context.Context) error {
			fmt.Println("reserve for", customer)
			reserved <- true
			return nil
		})
		if err != nil {
			return "", err
		}
		amount, err := paid.Receive(ctx)
		return fmt.Sprintf("%s has paid %d", customer, amount), err
	}
	former := stet.Define("order", order)
	changed := stet.Define("order", func(ctx stet.Context, customer string) (string, error) {
		if stet.Version(ctx, "check the address", 1) >= 1 {
			err := stet.Do(ctx, "check", func(context.Context) error {
				fmt.Println("check the address of", customer)
				return nil
			})
			if err != nil {
				return "", err
			}
		}
		return order(ctx, customer)
	})

	db := memory.New() // sqlite.Open, if it is to survive the process
	deploy(db, former, func(ctx context.Context, engine *stet.Engine) error {
		_, err := former.Start(ctx, engine, "Ada", stet.ID("ada"))
		<-reserved
		return err
	})
	fmt.Println("now with the check")
	deploy(db, changed, func(ctx context.Context, engine *stet.Engine) error {
		if err := paid.Send(ctx, engine, "ada", 10); err != nil {
			return err
		}
		fmt.Println(changed.Handle(engine, "ada").Wait(ctx))
		run, err := changed.Start(ctx, engine, "Bob")
		if err != nil {
			return err
		}
		if err := paid.Send(ctx, engine, run.ID(), 20); err != nil {
			return err
		}
		fmt.Println(run.Wait(ctx))
		return nil
	})
	// Output:
	// reserve for Ada
	// now with the check
	// Ada has paid 10 <nil>
	// check the address of Bob
	// reserve for Bob
	// Bob has paid 20 <nil>
}

// A step is taken out of a workflow. Without the mark a run that has made it would
// stall, because nobody could tell it from a step that was renamed or moved.
func ExampleRemoved() {
	confirmed := stet.Message[bool]("confirmed")
	faxed := make(chan bool, 1)
	former := stet.Define("signup", func(ctx stet.Context, customer string) (string, error) {
		if err := stet.Do(ctx, "fax", func(context.Context) error {
			fmt.Println("fax to", customer)
			faxed <- true
			return nil
		}); err != nil {
			return "", err
		}
		_, err := confirmed.Receive(ctx)
		return "welcome, " + customer, err
	})
	changed := stet.Define("signup", func(ctx stet.Context, customer string) (string, error) {
		stet.Removed(ctx, "fax")
		_, err := confirmed.Receive(ctx)
		return "welcome, " + customer, err
	})

	db := memory.New()
	deploy(db, former, func(ctx context.Context, engine *stet.Engine) error {
		_, err := former.Start(ctx, engine, "Ada", stet.ID("ada"))
		<-faxed
		return err
	})
	deploy(db, changed, func(ctx context.Context, engine *stet.Engine) error {
		if err := confirmed.Send(ctx, engine, "ada", true); err != nil {
			return err
		}
		fmt.Println(changed.Handle(engine, "ada").Wait(ctx))
		return nil
	})
	// Output:
	// fax to Ada
	// welcome, Ada <nil>
}
