package stet_test

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
)

// A queue bounds how many of its runs execute at a time, in all and for each key.
func ExampleOnQueue() {
	send := stet.Define("send", func(ctx stet.Context, to string) (string, error) {
		return stet.Step(ctx, "send", func(context.Context) (string, error) { return "sent to " + to, nil })
	}, stet.OnQueue{Name: "mail"}) // where a start does not say otherwise
	engine, stop := background(send)
	defer stop()
	ctx := context.Background()

	if err := engine.Queues().Create(ctx, "mail", stet.QueueSettings{Concurrency: 10, PerKey: 2}); err != nil {
		fmt.Println(err)
		return
	}
	first, err := send.Start(ctx, engine, "ada")
	if err != nil {
		fmt.Println(err)
		return
	}
	urgent, err := send.Start(ctx, engine, "bob", stet.OnQueue{Name: "mail", Key: "acme", Priority: 5})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(first.Wait(ctx))
	fmt.Println(urgent.Wait(ctx))
	queue, err := engine.Queues().Info(ctx, "mail")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(queue.Settings.Concurrency, "at a time,", queue.Granted, "permits granted")
	// Output:
	// sent to ada <nil>
	// sent to bob <nil>
	// 10 at a time, 2 permits granted
}
