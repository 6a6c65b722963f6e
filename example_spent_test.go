package stet_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// A provider allows each tenant 1,000 tokens a minute. How many a request takes is known when
// it is answered.
func ExampleSpent() {
	type question struct{ Tenant, Text string }
	answer := stet.Define("answer", func(ctx stet.Context, q question) (string, error) {
		return stet.Step(ctx, "ask", func(ctx context.Context) (string, error) {
			text, tokens := "answer to "+q.Text, 40 // as the provider says
			return text, stet.Spent(ctx, tokens)
		}, stet.Permit{Queue: "tokens", Key: q.Tenant, Cost: 600})
	})
	engine, stop := background(answer)
	defer stop()
	ctx := context.Background()

	limits := stet.QueueSettings{RatePerKey: 1000, Per: time.Minute}
	if err := engine.Queues().Create(ctx, "tokens", limits); err != nil {
		fmt.Println(err)
		return
	}
	for _, q := range []question{{"acme", "why?"}, {"acme", "when?"}, {"zenith", "where?"}} {
		fmt.Println(result(engine, answer, q)) // the second one need not wait: the first has spent 40
	}
	// Output:
	// answer to why? <nil>
	// answer to when? <nil>
	// answer to where? <nil>
}
