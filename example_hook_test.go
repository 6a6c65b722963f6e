package stet_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stet-run/stet"
)

// A webhook by which a payment service approves orders. A server of the store (package server)
// receives the calls, looks at their signatures, and delivers what they bring.
func ExampleHooksOf() {
	approve := stet.Define("approve", func(ctx stet.Context, order string) (string, error) {
		who, err := stet.Message[string]("approved").Receive(ctx)
		return order + " is approved by " + who, err
	})
	engine, stop := backgroundWith(stet.Config{Workflows: []stet.Definition{approve}})
	defer stop()
	ctx := context.Background()

	hooks := stet.HooksOf(engine)
	hook := stet.Hook{
		Name: "approvals", Scheme: stet.HookGitHub, Secrets: []string{"what the service signs with"},
		Send: "approved", Target: "/order", Value: "/who",
	}
	fmt.Println(hooks.Create(ctx, hook, stet.Act{By: "alice"}))

	run, err := approve.Start(ctx, engine, "books", stet.ID("o-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	call := stet.HookDelivery{ID: "d-1", Target: "o-1", Value: json.RawMessage(`"bob"`)}
	for range 2 { // the service repeats it
		again, err := hooks.Deliver(ctx, &hook, call)
		fmt.Println(again, err)
	}
	fmt.Println(run.Wait(ctx))

	hook.Secrets = []string{"what it will sign with", hook.Secrets[0]} // both count for a while
	fmt.Println(len(hook.Keys()), hooks.Replace(ctx, hook, stet.Act{By: "alice", Why: "each year"}))
	// Output:
	// <nil>
	// false <nil>
	// true <nil>
	// books is approved by bob <nil>
	// 2 <nil>
}
