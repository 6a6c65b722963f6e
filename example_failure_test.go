package stet_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// A program that shows runs, and knows none of their errors, reads a failure as data.
func ExampleFailureRecord() {
	charge := stet.Define("charge", func(ctx stet.Context, card string) (string, error) {
		return stet.Step(ctx, "call bank", func(context.Context) (string, error) {
			return "", fmt.Errorf("card %s: %w", card, errors.New("declined"))
		}, stet.Retry{Attempts: 2, First: time.Millisecond})
	})
	engine, stop := background(charge)
	defer stop()
	ctx := context.Background()

	if _, err := charge.Start(ctx, engine, "4711", stet.ID("order-1")); err != nil {
		fmt.Println(err)
		return
	}
	info, err := engine.Runs().Wait(ctx, "order-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	var failure *stet.FailureRecord
	if errors.As(info.Err, &failure) {
		fmt.Println(failure.Code, failure.Location, failure.Attempts)
		last := failure.Causes[len(failure.Causes)-1]
		fmt.Printf("%s: %s\n", last.Code, last.Message)
		fmt.Printf("%s: %s\n", last.Cause.Code, last.Cause.Message)
	}
	// Output:
	// step call bank 2
	// error: card 4711: declined
	// error: declined
}
