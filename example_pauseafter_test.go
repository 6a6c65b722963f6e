package stet_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// A run whose step keeps failing is paused, so that somebody looks before more is
// tried.
func ExamplePauseAfter() {
	bankIsOpen := false
	buy := stet.Define("buy", func(ctx stet.Context, _ string) (string, error) {
		return stet.Step(ctx, "charge", func(context.Context) (string, error) {
			if !bankIsOpen {
				return "", errors.New("bank is closed")
			}
			return "paid", nil
		}, stet.Retry{Attempts: stet.None, First: time.Millisecond})
	}, stet.PauseAfter(3))
	engine, stop := background(buy)
	defer stop()
	ctx := context.Background()

	run, err := buy.Start(ctx, engine, "", stet.ID("order-42"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		info, err := engine.Runs().Info(ctx, "order-42")
		if err != nil {
			fmt.Println(err)
			return
		}
		if info.Marks&store.Paused != 0 {
			fmt.Println(info.Reason)
			break
		}
	}
	bankIsOpen = true
	fmt.Println(engine.Runs().Resume(ctx, "order-42", stet.Act{By: "ada", Why: "it has opened"}))
	fmt.Println(run.Wait(ctx))
	// Output:
	// paused: step charge has failed 3 times, at last with: bank is closed
	// true <nil>
	// paid <nil>
}
