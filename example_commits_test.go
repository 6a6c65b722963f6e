package stet_test

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
)

// A program that shows how a run stands looks again when its process has committed something of it.
func ExampleCommitsOf() {
	proceed := stet.Message[bool]("go on")
	wait := stet.Define("wait", func(ctx stet.Context, _ int) (bool, error) { return proceed.Receive(ctx) })
	engine, stop := background(wait)
	defer stop()
	ctx := context.Background()

	run, err := wait.Start(ctx, engine, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := run.Info(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	hints, leave := stet.CommitsOf(engine, info.Number)
	defer leave()
	if err := proceed.Send(ctx, engine, run.ID(), true); err != nil {
		fmt.Println(err)
		return
	}
	for !info.Status.Terminal() {
		<-hints
		if info, err = run.Info(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(info.Status)
	// Output: succeeded
}
