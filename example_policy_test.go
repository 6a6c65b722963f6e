package stet_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// One run may have less time than its workflow is defined to have, or wait for a person
// where others fail.
func ExampleMaxRunTime_start() {
	answer := stet.Message[string]("answer")
	ask := stet.Define("ask", func(ctx stet.Context, _ string) (string, error) {
		return answer.Receive(ctx)
	}, stet.MaxRunTime(24*time.Hour))
	engine, stop := background(ask)
	defer stop()
	ctx := context.Background()

	run, err := ask.Start(ctx, engine, "quick?", stet.MaxRunTime(time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := engine.Runs().Wait(ctx, run.ID())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Status, info.Reason)
	// Output:
	// cancelled cancelled: ran longer than 1ms
}
