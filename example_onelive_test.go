package stet_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// A message to a run that is started by it if there is none: elsewhere this is called
// signal with start.
func ExampleFirstMessage() {
	item := stet.Message[string]("item")
	cart := stet.Define("cart", func(ctx stet.Context, customer string) ([]string, error) {
		return item.ReceiveBatch(ctx, 3, stet.Within(time.Minute))
	})
	engine, stop := background(cart)
	defer stop()
	ctx := context.Background()

	var run *stet.Run[[]string]
	for _, bought := range []string{"cup", "plate", "spoon"} {
		var err error
		run, err = cart.Start(ctx, engine, "ada", stet.ID("cart-ada"), stet.FirstMessage(item, bought))
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(run.Wait(ctx))
	_, err := cart.Start(ctx, engine, "ada", stet.ID("cart-ada"), stet.FirstMessage(item, "fork"))
	fmt.Println("it has ended:", errors.Is(err, stet.ErrTerminal))
	// Output:
	// [cup plate spoon] <nil>
	// it has ended: true
}

// With ReplaceEnded a run that has ended gets a successor. So a tenant has one run at
// most, and whatever comes finds it. This one is a debouncer: it acts on the last of what
// has come, once nothing has come for a while.
func ExampleExisting_debounce() {
	changed := stet.Message[string]("changed")
	index := stet.Define("index", func(ctx stet.Context, tenant string) (string, error) {
		var last, indexed string
		for {
			switch doc, err := changed.Receive(ctx, stet.Within(20*time.Millisecond)); {
			case err == nil:
				last = doc
			case !errors.Is(err, stet.ErrTimeout):
				return "", err
			case last == "":
				return indexed, nil
			default:
				if err := stet.Do(ctx, "index", func(context.Context) error { return nil }); err != nil {
					return "", err
				}
				last, indexed = "", last
			}
		}
	})
	engine, stop := background(index)
	defer stop()
	ctx := context.Background()

	for _, doc := range []string{"a", "b", "c"} {
		run, err := index.Start(ctx, engine, "acme", stet.ID("index-acme"), stet.ReplaceEnded,
			stet.FirstMessage(changed, doc))
		if err != nil {
			fmt.Println(err)
			return
		}
		if doc == "c" {
			fmt.Println(run.Wait(ctx))
		}
	}
	// Output: c <nil>
}

// One run for each tenant at a time: a start while it lives gives that run, a start
// after its end another one.
func ExampleExisting_onePerTenant() {
	bill := stet.Define("bill", func(ctx stet.Context, tenant string) (string, error) { return "billed " + tenant, nil })
	engine, stop := background(bill)
	defer stop()
	ctx := context.Background()

	for range 2 {
		run, err := bill.Start(ctx, engine, "acme", stet.ID("bill-acme"), stet.ReplaceEnded)
		if err != nil {
			fmt.Println(err)
			return
		}
		_, err = run.Wait(ctx)
		info, err2 := run.Info(ctx)
		fmt.Println(run.ID(), info.Number, errors.Join(err, err2))
	}
	// Output:
	// bill-acme 1 <nil>
	// bill-acme 2 <nil>
}
