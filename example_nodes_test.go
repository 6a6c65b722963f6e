package stet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
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
