package stet_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// A step that has succeeded at last still says why its former attempts failed.
func ExampleFailedAttempt() {
	pay := stet.Define("pay", func(ctx stet.Context, _ string) (string, error) {
		return stet.Step(ctx, "charge", func(ctx context.Context) (string, error) {
			if stet.Attempt(ctx) < 3 {
				return "", errors.New("the bank is busy")
			}
			return "paid", nil
		}, stet.Retry{First: time.Millisecond})
	})
	engine, stop := background(pay)
	defer stop()
	ctx := context.Background()

	run, err := pay.Start(ctx, engine, "order-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Wait(ctx))
	entries, err := engine.Runs().History(ctx, run.ID(), stet.HistoryQuery{Values: true})
	for _, entry := range entries {
		for _, attempt := range entry.Failures {
			fmt.Println(entry.Location, attempt.Number, attempt.Message, !attempt.Ended.Before(attempt.Began))
		}
	}
	fmt.Println(err)
	// Output:
	// paid <nil>
	// charge 1 the bank is busy true
	// charge 2 the bank is busy true
	// <nil>
}
