package stet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
)

// A workflow that finds what a person must look at stalls its run, and writes nothing of what
// it has begun since the last completion.
func ExampleStall() {
	limit := 100
	pay := stet.Define("pay", func(ctx stet.Context, amount int) (string, error) {
		booked, err := stet.Step(ctx, "book", func(context.Context) (int, error) { return amount, nil })
		if err != nil {
			return "", err
		}
		if booked > limit {
			return "", stet.Stall(fmt.Sprintf("%d is above the limit of %d", booked, limit))
		}
		return "paid", nil
	})
	engine, stop := background(pay)
	defer stop()
	ctx := context.Background()

	run, err := pay.Start(ctx, engine, 150, stet.ID("invoice-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = run.Wait(ctx)
	info, _ := run.Info(ctx)
	fmt.Println(errors.Is(err, stet.ErrStalled), info.Cause)

	limit = 200 // what the code reads beside its input, as a new build would
	if _, err := engine.Runs().Resume(ctx, "invoice-1", stet.Act{Why: "the limit is 200 now"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Wait(ctx))
	// Output:
	// true code
	// paid <nil>
}
