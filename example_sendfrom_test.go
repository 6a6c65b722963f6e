package stet_test

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// An update is sent, and a promise assigned, by a step: its body waits for the answer, and the
// key makes sure that a repeated attempt asks once.
func ExampleEngineOf_updateAndPromise() {
	raise := stet.Update[int, int]("raise")
	account := stet.Define("account", func(ctx stet.Context, limit int) (int, error) {
		signed, err := stet.NewPromise[string](ctx, "signed")
		if err != nil {
			return 0, err
		}
		request, err := raise.Receive(ctx)
		if err != nil {
			return 0, err
		}
		if err := request.Answer(ctx, limit+request.Value); err != nil {
			return 0, err
		}
		name, err := signed.Await(ctx)
		return limit + request.Value + len(name), err
	})
	clerk := stet.Define("clerk", func(ctx stet.Context, runID string) (int, error) {
		limit, err := stet.Step(ctx, "raise", func(ctx context.Context) (int, error) {
			return raise.Call(ctx, stet.EngineOf(ctx), runID, 50, stet.SendKey(stet.IdempotencyKey(ctx)))
		})
		if err != nil {
			return 0, err
		}
		return limit, stet.Do(ctx, "sign", func(ctx context.Context) error {
			e := stet.EngineOf(ctx)
			promises, err := e.Runs().Promises(ctx, runID)
			if err != nil {
				return err
			}
			err = e.Resolve(ctx, promises[0].Token, "clerk")
			if errors.Is(err, stet.ErrAlreadyResolved) {
				return nil // by an attempt whose answer was lost
			}
			return err
		})
	})
	engine, stop := background(account, clerk)
	defer stop()

	run, err := account.Start(context.Background(), engine, 100)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result(engine, clerk, run.ID()))
	fmt.Println(run.Wait(context.Background()))
	// Output:
	// 150 <nil>
	// 155 <nil>
}

// A run that receives nothing does not fill the store: beyond Config.MaxInbox senders are told.
func ExampleErrInboxFull() {
	point := stet.Message[int]("point")
	trip := stet.Define("trip", func(ctx stet.Context, _ int) (int, error) {
		if err := stet.Sleep(ctx, "parked", time.Hour); err != nil {
			return 0, err
		}
		points, err := point.ReceiveBatch(ctx, 10)
		return len(points), err
	})
	engine, stop := backgroundWith(stet.Config{MaxInbox: 3, Workflows: []stet.Definition{trip}})
	defer stop()
	ctx := context.Background()

	run, err := trip.Start(ctx, engine, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	sent := 0
	for err == nil {
		if err = point.Send(ctx, engine, run.ID(), sent); err == nil {
			sent++
		}
	}
	fmt.Println(sent, "were sent; then the inbox is full:", errors.Is(err, stet.ErrInboxFull))
	// Output:
	// 3 were sent; then the inbox is full: true
}
