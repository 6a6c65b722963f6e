package stet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
)

// A run that has ended, and must not be kept any longer, is deleted with its children.
func ExampleRuns_Delete() {
	item := stet.Define("item", func(_ stet.Context, n int) (int, error) { return n, nil })
	order := stet.Define("order", func(ctx stet.Context, n int) (int, error) {
		return item.Call(ctx, n)
	})
	engine, stop := background(order, item)
	defer stop()
	ctx := context.Background()
	run, err := order.Start(ctx, engine, 7, stet.ID("order-7"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := run.Wait(ctx); err != nil {
		fmt.Println(err)
		return
	}

	would, err := engine.Runs().Deletable(ctx, "order-7", true)
	fmt.Println(len(would), "runs would go:", err)
	gone, err := engine.Runs().Delete(ctx, "order-7", stet.Act{By: "ada", Why: "a customer's wish", Children: true})
	fmt.Println(len(gone), "runs are gone:", err)
	_, err = engine.Runs().Info(ctx, "order-7")
	fmt.Println("not found:", errors.Is(err, stet.ErrNotFound))

	list, err := engine.Runs().Deletions(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range list {
		fmt.Println(d.Workflow, d.Status, d.By, d.Why)
	}
	// Output:
	// 2 runs would go: <nil>
	// 2 runs are gone: <nil>
	// not found: true
	// order succeeded ada a customer's wish
	// item succeeded ada a customer's wish
}
