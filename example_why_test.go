package stet_test

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// Why says what a run waits for, whether that ends without a person, and which verbs may help.
func ExampleWhy() {
	answers := stet.Message[string]("answer")
	ask := stet.Define("ask", func(ctx stet.Context, _ string) (string, error) {
		return answers.Receive(ctx)
	})
	engine, stop := background(ask)
	defer stop()
	ctx := context.Background()

	run, err := ask.Start(ctx, engine, "ship it?", stet.ID("question-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	until(ctx, run, store.Suspended)
	info, err := run.Info(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	why := info.Why[0]
	fmt.Println(why.Text)
	fmt.Println(why.Code, "means:", why.Means())
	fmt.Println(why.GoesOn(), why.Verbs())
	// Output:
	// waits for receive answer
	// message means: a message of one of the names, which callers and operators may send
	// false [send cancel]
}
