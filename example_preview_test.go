package stet_test

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// Preview shows what a rewind would take back, before it does.
func ExampleRuns_Preview() {
	done := func(context.Context) error { return nil }
	order := stet.Define("order", func(ctx stet.Context, _ string) (string, error) {
		if err := stet.Do(ctx, "reserve", done); err != nil {
			return "", err
		}
		if err := stet.Do(ctx, "charge", done, stet.UndoDo(done)); err != nil {
			return "", err
		}
		return "sent", stet.Do(ctx, "send", done)
	})
	engine, stop := background(order)
	defer stop()
	ctx := context.Background()

	run, err := order.Start(ctx, engine, "", stet.ID("order-42"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Wait(ctx))
	p, err := engine.Runs().Preview(ctx, "order-42", store.ItemRewind, "charge")
	fmt.Println(p.From, p.TakenBack, p.Owed, err)
	// Output:
	// sent <nil>
	// charge [charge send] [charge] <nil>
}
