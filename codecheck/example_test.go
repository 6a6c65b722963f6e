package codecheck_test

import (
	"context"
	"fmt"
	"os"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/codecheck"
	"github.com/stet-run/stet/store/memory"
)

// An application's binary offers the check as a command: "app check" in a
// pipeline, before the deploy.
func ExampleCommand() {
	work := func(ctx context.Context, engine *stet.Engine, args []string) int {
		if len(args) > 0 && args[0] == "check" {
			return codecheck.Command(ctx, engine, args[1:], os.Stdout, os.Stderr)
		}
		if err := engine.Run(ctx); err != nil {
			return 1
		}
		return 0
	}
	ctx := context.Background()
	engine, err := stet.New(ctx, stet.Config{Store: memory.New()})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(work(ctx, engine, []string{"check", "-sample", "100"}))
	// Output: 0
}
