package stet_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// A process that can read the store finds the promises of a run, and their tokens. The
// holder of a token sees whether it was used.
func ExampleRuns_Promises() {
	approve := stet.Define("approve", func(ctx stet.Context, _ int) (string, error) {
		decision, err := stet.NewPromise[string](ctx, "decision")
		if err != nil {
			return "", err
		}
		return decision.Await(ctx)
	})
	engine, stop := background(approve)
	defer stop()
	ctx := context.Background()

	run, err := approve.Start(ctx, engine, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, ended, err := run.Result(ctx) // without waiting
	fmt.Println(ended, err)
	var promises []stet.PromiseInfo
	for len(promises) == 0 && err == nil { // until the run has made it
		time.Sleep(time.Millisecond)
		promises, err = engine.Runs().Promises(ctx, run.ID())
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(promises[0].Location, promises[0].Assigned)
	if err := engine.Resolve(ctx, promises[0].Token, "yes"); err != nil {
		fmt.Println(err)
	}
	promise, err := engine.Promise(ctx, promises[0].Token)
	fmt.Println(promise.Assigned, err)
	fmt.Println(run.Wait(ctx))
	// Output:
	// false <nil>
	// decision false
	// true <nil>
	// yes <nil>
}
