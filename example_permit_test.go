package stet_test

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
)

// Steps of all runs that use a queue share its limits: here at most two calls of a
// model at a time, and one for each customer.
func ExampleOnStepQueue() {
	type question struct{ Customer, Text string }
	answer := stet.Define("answer", func(ctx stet.Context, q question) (string, error) {
		return stet.Step(ctx, "ask", func(context.Context) (string, error) {
			return "answer to " + q.Text, nil
		}, stet.Permit{Queue: "model", Key: q.Customer})
	})
	summary := stet.Define("summary", func(ctx stet.Context, text string) (string, error) {
		return stet.Step(ctx, "ask", func(context.Context) (string, error) {
			return "summary of " + text, nil
		}, stet.OnStepQueue("model"))
	})
	engine, stop := background(answer, summary)
	defer stop()
	ctx := context.Background()

	if err := engine.Queues().Create(ctx, "model", stet.QueueSettings{Concurrency: 2, PerKey: 1}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result(engine, answer, question{"acme", "why?"}))
	fmt.Println(result(engine, summary, "a book"))
	queue, err := engine.Queues().Info(ctx, "model")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(queue.Granted, "permits granted")
	// Output:
	// answer to why? <nil>
	// summary of a book <nil>
	// 2 permits granted
}
