package stet_test

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
)

// What is done to the store, and not to a run, stands in an audit of its own. An application
// puts its own acts there, too.
func ExampleAuditOf() {
	ctx := context.Background()
	engine, err := stet.New(ctx, stet.Config{Store: memory.New()})
	if err != nil {
		panic(err)
	}
	eve := stet.TokenInfo{Name: "eve", Role: "viewer"}
	if _, err := stet.TokensOf(engine).Create(ctx, eve, stet.Act{By: "ada", Why: "for the wall"}); err != nil {
		panic(err)
	}
	if err := stet.AuditOf(engine).Note(ctx, "open", "gate5", stet.Act{By: "bob"}); err != nil {
		panic(err)
	}
	acts, err := stet.AuditOf(engine).List(ctx, stet.AuditFilter{})
	if err != nil {
		panic(err)
	}
	for _, a := range acts {
		fmt.Printf("%s: %s %.5s, %q\n", a.By, a.Verb, a.About, a.Why)
	}
	// Unordered output:
	// bob: open gate5, ""
	// ada: create token, "for the wall"
}
