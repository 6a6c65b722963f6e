// main.go charges, waits, and ships. Kill it at any time and start it again: nothing is charged twice.
package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/sqlite"
)

type Order struct {
	ID    string
	Cents int
}

var Checkout = stet.Define("checkout", checkout)

func checkout(ctx stet.Context, o Order) (string, error) {
	charge, err := stet.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		fmt.Println("charging", o.Cents, "with key", stet.IdempotencyKey(ctx)) // here you call the bank
		return "charge of " + o.ID, nil
	}, stet.Retry{Attempts: 8})
	if err != nil {
		return "", err
	}
	if err := stet.Sleep(ctx, "cooling-off period", 3*time.Second); err != nil { // or 14 days
		return "", err
	}
	return stet.Step(ctx, "ship", func(ctx context.Context) (string, error) {
		fmt.Println("shipping", o.ID)
		return o.ID + " is shipped, paid by " + charge, nil
	})
}

func readmeMain() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	db, err := sqlite.Open(ctx, "shop.db")
	if err != nil {
		log.Fatal(err)
	}
	engine, err := stet.New(ctx, stet.Config{Store: db, Workflows: []stet.Definition{Checkout}})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }() // executes runs until ctx ends, or the process does

	order := Order{ID: "order-42", Cents: 999}
	run, err := Checkout.Start(ctx, engine, order, stet.ID(order.ID)) // durable; a second time it is the same run
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := run.Wait(ctx)
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt)
}
