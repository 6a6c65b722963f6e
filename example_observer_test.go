package stet_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet"
)

// What the process does, as it does it: nothing is reported again when a run is replayed.
func ExampleObserver() {
	type caller struct{}
	seen := make(chan string, 8)
	observer := &stet.Observer{
		Start: func(ctx context.Context, start stet.StartInfo) (stet.Headers, func(error)) {
			by, _ := ctx.Value(caller{}).(string)
			return stet.Headers{"by": by}, func(err error) { seen <- fmt.Sprint("started ", start.Workflow, ": ", err) }
		},
		Attempt: func(ctx context.Context, step stet.StepInfo) (context.Context, func(error)) {
			return ctx, func(err error) {
				seen <- fmt.Sprint("attempt ", step.Attempt, " of ", step.Name, " for ", step.Headers["by"], ": ", err)
			}
		},
		RunEnded: func(run stet.RunEvent) { seen <- fmt.Sprint(run.Workflow, " has ", run.Status, ": ", run.Err()) },
	}
	buy := stet.Define("buy", func(ctx stet.Context, item string) (string, error) {
		return stet.Step(ctx, "order", func(ctx context.Context) (string, error) {
			if stet.Attempt(ctx) == 1 {
				return "", errors.New("sold out")
			}
			return item, nil
		}, stet.Retry{First: time.Millisecond})
	})
	engine, stop := backgroundWith(stet.Config{Workflows: []stet.Definition{buy}, Observer: observer})
	defer stop()

	ctx := context.WithValue(context.Background(), caller{}, "alice")
	if _, err := buy.Start(ctx, engine, "tea"); err != nil {
		fmt.Println(err)
		return
	}
	for range 4 {
		fmt.Println(<-seen)
	}
	// Unordered output:
	// started buy: <nil>
	// attempt 1 of order for alice: sold out
	// attempt 2 of order for alice: <nil>
	// buy has succeeded: <nil>
}

// Two observers of one engine: a counter of the application beside metrics or traces.
func ExampleObservers() {
	var attempts atomic.Int64
	count := &stet.Observer{
		Attempt: func(ctx context.Context, _ stet.StepInfo) (context.Context, func(error)) {
			attempts.Add(1)
			return ctx, nil
		},
	}
	ended := make(chan [16]byte, 1)
	watch := &stet.Observer{RunEnded: func(run stet.RunEvent) { ended <- run.Key() }}
	twice := stet.Define("twice", func(ctx stet.Context, n int) (int, error) {
		return stet.Step(ctx, "double", func(context.Context) (int, error) { return 2 * n, nil })
	})
	engine, stop := backgroundWith(stet.Config{
		Workflows: []stet.Definition{twice}, Observer: stet.Observers(count, watch),
	})
	defer stop()
	n, err := result(engine, twice, 21)
	<-ended
	fmt.Println(n, err, attempts.Load())
	// Output: 42 <nil> 1
}

// What a tracer needs: keys that identify a run's life in every process, and what a run has
// received.
func ExampleRunEvent_Key() {
	approved := stet.Message[bool]("approved")
	done := make(chan bool, 1)
	var inStep [16]byte
	order := stet.Define("order", func(ctx stet.Context, _ string) (bool, error) {
		if err := stet.Do(ctx, "ask", func(ctx context.Context) error {
			step, _ := stet.StepOf(ctx)
			inStep = step.RunKey()
			return nil
		}); err != nil {
			return false, err
		}
		return approved.Receive(ctx)
	})
	engine, stop := backgroundWith(stet.Config{
		Workflows: []stet.Definition{order},
		Observer: &stet.Observer{
			Waited: func(_ stet.RunEvent, wait stet.WaitEnded) {
				for _, headers := range wait.Received() {
					fmt.Println(wait.Kind, wait.Name, "from", headers["by"])
				}
			},
			RunEnded: func(run stet.RunEvent) {
				_, rewound := run.FormerKey()
				done <- run.Key() == inStep && !rewound
			},
		},
	})
	defer stop()
	ctx := context.Background()
	run, err := order.Start(ctx, engine, "tea")
	if err == nil {
		err = approved.Send(ctx, engine, run.ID(), true, stet.Headers{"by": "alice"})
	}
	fmt.Println(<-done, err)
	// Output:
	// receive approved from alice
	// true <nil>
}
