package stet_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// Runs are kept for 30 days after their end. A workflow may say otherwise, by how
// its runs end: here those that succeeded go at once, and those that failed stay
// until somebody has looked at them.
func ExampleRetention() {
	ping := stet.Define("ping", func(stet.Context, int) (string, error) { return "pong", nil },
		stet.Retention{Succeeded: stet.AtOnce, Failed: stet.None})
	engine, stop := backgroundWith(stet.Config{
		Workflows: []stet.Definition{ping},
		Retention: stet.KeepFor(90 * 24 * time.Hour), // of other workflows, and of cancelled runs
	})
	defer stop()

	run, err := ping.Start(context.Background(), engine, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Wait(context.Background())) // before it is deleted, in a minute or two
	// Output: pong <nil>
}
