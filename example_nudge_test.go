package stet_test

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// A nudge executes the code of a run that waits. Where the code has not changed, the run
// goes on waiting; where Removed stands in place of the wait, it goes on.
func ExampleRuns_Nudge() {
	w := approval("word")
	engine, stop := background(w)
	defer stop()
	ctx := context.Background()
	run, err := w.Start(ctx, engine, 21, stet.ID("a-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	until(ctx, run, store.Suspended)

	fmt.Println(engine.Runs().Nudge(ctx, "a-1", stet.Act{By: "ada", Why: "after the deploy"}))
	until(ctx, run, store.Suspended)
	info, err := run.Info(ctx)
	fmt.Println("waits for", info.WaitsFor[0].Names, err)
	// Output:
	// true <nil>
	// waits for [word] <nil>
}
