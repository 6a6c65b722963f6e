// Command subscription charges a customer each month, for years, until the customer
// quits or does not pay.
//
//	go run ./examples/subscription [--db FILE] [--month DURATION] CUSTOMER
//
// Months of the calendar are long: with --month 5s they pass while you look on. From
// another terminal, all of this works while the program runs:
//
//	stet --db subscription.db update subscription-CUSTOMER change-plan '{"name":"large","cents":2500}'
//	stet --db subscription.db send subscription-CUSTOMER quit '"too expensive"'
//	stet --db subscription.db tail --value subscription-CUSTOMER account
//
// Killed at any moment and started again it goes on: no month is charged twice.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/examples/internal/app"
)

func main() {
	db := flag.String("db", "subscription.db", "SQLite `file` that keeps the subscriptions")
	month := flag.Duration("month", 0, "length of a month; 0: a month of the calendar")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: subscription [flags] CUSTOMER")
		flag.PrintDefaults()
		os.Exit(2)
	}
	app.Main("subscription", func(ctx context.Context) error {
		return run(ctx, *db, Signup{flag.Arg(0), Plan{"small", 900}, *month}, os.Stdout)
	})
}

// run starts the customer's subscription, or finds it, and shows it until it ends.
func run(ctx context.Context, db string, in Signup, out io.Writer) error {
	s := &service{printer{out}}
	subscriptions := stet.Define("subscription", s.subscription,
		stet.IDFrom(func(in Signup) string { return "subscription-" + in.Customer }))
	engine, file, err := app.Open(ctx, db, stet.Config{
		Workflows: []stet.Definition{subscriptions},
		Errors:    []stet.ErrorCode{stet.Sentinel("declined", errDeclined)},
	})
	if err != nil {
		return err
	}
	defer file.Close()
	return app.Serve(ctx, engine, func(ctx context.Context) error {
		r, err := subscriptions.Start(ctx, engine, in)
		if err != nil {
			return err
		}
		end, err := r.Wait(ctx)
		if errors.Is(err, context.Canceled) {
			return nil // stopped; the subscription goes on next time
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s: %d months, %d cents\n", end.Ended, end.Months, end.Cents)
		return err
	})
}

// printer is a world on paper.
type printer struct{ out io.Writer }

func (p printer) Charge(_ context.Context, customer string, cents int, _ string) error {
	_, err := fmt.Fprintf(p.out, "%s pays %d cents\n", customer, cents)
	return err
}

func (p printer) Remind(_ context.Context, customer, text, _ string) error {
	_, err := fmt.Fprintf(p.out, "to %s: %s\n", customer, text)
	return err
}
