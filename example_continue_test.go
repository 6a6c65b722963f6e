package stet_test

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
)

// ContinueAsNew lets a run go on with a new input and an empty history. What was
// sent to it and not received stays.
func ExampleContinueAsNew() {
	type day struct{ Number, Sold int }

	sale := stet.Message[int]("sale")
	shop := stet.Define("shop", func(ctx stet.Context, d day) (string, error) {
		n, err := sale.Receive(ctx)
		if err != nil {
			return "", err
		}
		d.Sold += n
		if d.Number < 3 {
			return "", stet.ContinueAsNew(day{d.Number + 1, d.Sold})
		}
		return fmt.Sprintf("%d sold in %d days", d.Sold, d.Number), nil
	})
	engine, stop := background(shop)
	defer stop()

	ctx := context.Background()
	run, err := shop.Start(ctx, engine, day{Number: 1})
	if err != nil {
		panic(err)
	}
	for _, n := range []int{5, 7, 9} {
		if err := sale.Send(ctx, engine, run.ID(), n); err != nil {
			panic(err)
		}
	}
	fmt.Println(run.Wait(ctx))
	// Output: 21 sold in 3 days <nil>
}

// ContinueAs goes on with another workflow.
func ExampleContinueAs() {
	billing := stet.Define("billing", func(ctx stet.Context, total int) (string, error) {
		return fmt.Sprint("billed ", total), nil
	})
	ordering := stet.Define("ordering", func(ctx stet.Context, items []int) (string, error) {
		total := 0
		for _, item := range items {
			total += item
		}
		return "", stet.ContinueAs(billing, total)
	})
	engine, stop := background(ordering, billing)
	defer stop()

	fmt.Println(result(engine, ordering, []int{1, 2, 3}))
	// Output: billed 6 <nil>
}
