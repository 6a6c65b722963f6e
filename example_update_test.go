package stet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
)

// An update is a message whose sender waits for the answer. The run looks at each
// request and answers it, or rejects it before anything is done.
func ExampleUpdate() {
	deposit := stet.Update[int, int]("deposit")
	account := stet.Define("account", func(ctx stet.Context, balance int) (int, error) {
		for balance < 100 {
			request, err := deposit.Receive(ctx)
			if err != nil {
				return balance, err
			}
			if request.Value <= 0 {
				if err := request.Reject(ctx, errors.New("an amount above 0 is needed")); err != nil {
					return balance, err
				}
				continue
			}
			balance += request.Value
			if err := request.Answer(ctx, balance); err != nil {
				return balance, err
			}
		}
		return balance, nil
	})
	engine, stop := background(account)
	defer stop()
	ctx := context.Background()

	run, err := account.Start(ctx, engine, 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = deposit.Call(ctx, engine, run.ID(), -5)
	fmt.Println(errors.Is(err, stet.ErrRefused))
	fmt.Println(deposit.Call(ctx, engine, run.ID(), 20, stet.SendKey("transfer-1")))
	fmt.Println(deposit.Call(ctx, engine, run.ID(), 20, stet.SendKey("transfer-1"))) // the same request
	fmt.Println(deposit.Call(ctx, engine, run.ID(), 70))
	fmt.Println(run.Wait(ctx))
	// Output:
	// true
	// 30 <nil>
	// 30 <nil>
	// 100 <nil>
	// 100 <nil>
}

// Serve answers requests in a branch of its own while the workflow does something
// else.
func ExampleUpdate_Serve() {
	setLimit := stet.Update[int, string]("set-limit")
	finish := stet.Message[string]("finish")
	watch := stet.Define("watch", func(ctx stet.Context, limit int) (int, error) {
		stet.Go(ctx, "limits", func(ctx stet.Context) (int, error) {
			return 0, setLimit.Serve(ctx,
				func(_ stet.Context, next int) error {
					if next < limit {
						return fmt.Errorf("the limit cannot go below %d", limit)
					}
					return nil
				},
				func(_ stet.Context, next int) (string, error) {
					former := limit
					limit = next
					return fmt.Sprintf("was %d", former), nil
				})
		})
		_, err := finish.Receive(ctx)
		return limit, err
	})
	engine, stop := background(watch)
	defer stop()
	ctx := context.Background()

	run, err := watch.Start(ctx, engine, 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(setLimit.Call(ctx, engine, run.ID(), 8))
	_, err = setLimit.Call(ctx, engine, run.ID(), 7)
	fmt.Println(errors.Is(err, stet.ErrRefused))
	fmt.Println(finish.Send(ctx, engine, run.ID(), "now"))
	fmt.Println(run.Wait(ctx))
	// Output:
	// was 5 <nil>
	// true
	// <nil>
	// 8 <nil>
}
