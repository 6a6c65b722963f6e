package stet_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// Cancel appears as an error from every operation. Code cleans up with
// WithoutCancel; the run ends as cancelled, whatever it returns.
func ExampleWithoutCancel() {
	rented := make(chan bool, 1)
	rent := stet.Define("rent", func(ctx stet.Context, _ int) (int, error) {
		err := stet.Do(ctx, "rent a machine", func(context.Context) error { rented <- true; return nil })
		if err == nil {
			err = stet.Sleep(ctx, "use it", 24*time.Hour)
		}
		if errors.Is(err, stet.ErrCancelled) { // also while it was rented: it may be there
			return 0, stet.Do(stet.WithoutCancel(ctx), "give it back", func(context.Context) error {
				fmt.Println("given back")
				return nil
			})
		}
		return 0, err
	})
	engine, stop := background(rent)
	defer stop()
	ctx := context.Background()

	run, err := rent.Start(ctx, engine, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	<-rented
	fmt.Println(run.Cancel(ctx, stet.Act{Why: "too expensive"}))
	_, err = run.Wait(ctx)
	fmt.Println(errors.Is(err, stet.ErrCancelled))
	// Unordered output:
	// true <nil>
	// given back
	// true
}
