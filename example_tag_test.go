package stet_test

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// Runs are listed by their tags. A run changes its own.
func ExampleTags() {
	order := stet.Define("order", func(ctx stet.Context, total int) (string, error) {
		if total > 1000 {
			if err := stet.SetTags(ctx, stet.Tags{"size": "large"}); err != nil {
				return "", err
			}
		}
		return "shipped", nil
	})
	engine, stop := background(order)
	defer stop()
	ctx := context.Background()

	for i, total := range []int{20, 5000} {
		run, err := order.Start(ctx, engine, total, stet.ID(fmt.Sprint("order-", i)), stet.Tags{"tenant": "acme"})
		if err != nil {
			fmt.Println(err)
			return
		}
		if _, err := run.Wait(ctx); err != nil {
			fmt.Println(err)
		}
	}
	runs, _, err := engine.Runs().List(ctx, store.Filter{Tags: []store.Pair{{Key: "tenant", Value: "acme"},
		{Key: "size", Value: "large"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, run := range runs {
		fmt.Println(run.ID, run.Tags)
	}
	// Output: order-1 map[size:large tenant:acme]
}

// Headers accompany a run: its code and its steps read them, and the messages that
// its steps send carry them.
func ExampleHeaders() {
	note := stet.Message[string]("note")
	inbox := stet.Define("inbox", func(ctx stet.Context, _ int) (string, error) {
		got, err := note.ReceiveDelivery(ctx)
		return fmt.Sprintf("%s (trace %s)", got.Value, got.Headers["trace"]), err
	})
	var engine *stet.Engine
	writer := stet.Define("writer", func(ctx stet.Context, to string) (string, error) {
		err := stet.Do(ctx, "write", func(ctx context.Context) error { return note.Send(ctx, engine, to, "hello") })
		return "for " + stet.Header(ctx, "tenant"), err
	})
	engine, stop := background(inbox, writer)
	defer stop()
	ctx := context.Background()

	receiver, err := inbox.Start(ctx, engine, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	sender, err := writer.Start(ctx, engine, receiver.ID(), stet.Headers{"trace": "7f3a", "tenant": "acme"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sender.Wait(ctx))
	fmt.Println(receiver.Wait(ctx))
	// Output:
	// for acme <nil>
	// hello (trace 7f3a) <nil>
}
