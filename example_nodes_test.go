package stet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// Who executes a run, or why nobody does.
func ExampleNodes_Info() {
	pay := stet.Define("pay", func(stet.Context, int) (int, error) { return 0, nil })
	engine, stop := background(pay)
	defer stop()
	ctx := context.Background()

	nodes, err := engine.Nodes().Info(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range nodes.Nodes {
		fmt.Println("alive:", nodes.Alive(&nodes.Nodes[i]))
	}
	fmt.Println(nodes.UnservedWorkflow("pay"))
	fmt.Println(nodes.UnservedWorkflow("ship"))

	run := &stet.RunInfo{Workflow: "ship"} // as Runs.List returns it
	var lack *stet.UnservedError
	if err := nodes.Unserved(run); errors.As(err, &lack) {
		fmt.Println("start a process with", lack.Workflow)
	}
	lease, owner := nodes.Owner(run.Shard)
	fmt.Println(lease == nil, owner == nil)
	// Output:
	// alive: true
	// <nil>
	// no process with the workflow ship works on this store
	// start a process with ship
	// true true
}

// In a StatefulSet a pod's name is that of one process at a time. The next one takes over at once.
func ExampleConfig_replaces() {
	ship := stet.Define("ship", func(stet.Context, int) (int, error) { return 0, nil })
	engine, err := stet.New(context.Background(), stet.Config{
		Store: memory.New(), Workflows: []stet.Definition{ship}, Node: "shop-0", Replaces: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	stop() // at once, here
	if err := engine.Run(ctx); errors.Is(err, stet.ErrReplaced) {
		fmt.Println("another process has the name: end this one")
	}
	// Output:
}
