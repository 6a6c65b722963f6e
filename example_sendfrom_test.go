package stet_test

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
)

// A workflow sends a message to another run as part of its commit: once, whatever
// crashes.
func ExampleMessage_SendFrom() {
	paid := stet.Message[int]("paid")
	ship := stet.Define("ship", func(ctx stet.Context, order string) (string, error) {
		cents, err := paid.Receive(ctx)
		return fmt.Sprintf("shipped %s for %d cents", order, cents), err
	})
	pay := stet.Define("pay", func(ctx stet.Context, cents int) (string, error) {
		return "paid", paid.SendFrom(ctx, "ship-17", cents)
	})
	engine, stop := background(ship, pay)
	defer stop()

	run, err := ship.Start(context.Background(), engine, "17", stet.ID("ship-17"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result(engine, pay, 999))
	fmt.Println(run.Wait(context.Background()))
	// Output:
	// paid <nil>
	// shipped 17 for 999 cents <nil>
}

// A step's body has the engine that executes it, so a definition needs no variable that
// is set afterwards.
func ExampleEngineOf() {
	hello := stet.Message[string]("hello")
	listen := stet.Define("listen", func(ctx stet.Context, _ int) (string, error) { return hello.Receive(ctx) })
	call := stet.Define("call", func(ctx stet.Context, runID string) (string, error) {
		err := stet.Do(ctx, "send", func(ctx context.Context) error {
			return hello.Send(ctx, stet.EngineOf(ctx), runID, "from a step", stet.SendKey(stet.IdempotencyKey(ctx)))
		})
		return "sent", err
	})
	engine, stop := background(listen, call)
	defer stop()

	run, err := listen.Start(context.Background(), engine, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result(engine, call, run.ID()))
	fmt.Println(run.Wait(context.Background()))
	// Output:
	// sent <nil>
	// from a step <nil>
}
