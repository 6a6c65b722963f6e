package stet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
)

// Each step carries what takes its effect back. When a later one fails, those that
// have succeeded are undone, newest first, whatever crashes in between.
func ExampleUndo() {
	type charge struct{ ID string }
	checkout := stet.Define("checkout", func(ctx stet.Context, order string) (string, error) {
		err := stet.Do(ctx, "reserve", func(context.Context) error { return nil },
			stet.UndoDo(func(context.Context) error {
				fmt.Println("release the goods of", order)
				return nil
			}))
		if err != nil {
			return "", err
		}
		_, err = stet.Step(ctx, "charge", func(ctx context.Context) (charge, error) {
			return charge{"ch-" + order}, nil // with stet.IdempotencyKey(ctx)
		}, stet.Undo(func(_ context.Context, c charge) error {
			fmt.Println("refund", c.ID)
			return nil
		}, stet.Retry{Attempts: 20}))
		if err != nil {
			return "", err
		}
		return "shipped", stet.Do(ctx, "ship", func(context.Context) error {
			return stet.Permanent(errors.New("no van"))
		})
	})
	engine, stop := background(checkout)
	defer stop()

	_, err := result(engine, checkout, "42")
	fmt.Println(errors.Unwrap(err))
	// Output:
	// refund ch-42
	// release the goods of 42
	// step ship failed: no van
}

// With UndoOnRollback, a run is undone only if its function says so.
func ExampleRollback() {
	book := stet.Define("book", func(ctx stet.Context, seats int) (string, error) {
		err := stet.Do(ctx, "hold", func(context.Context) error { return nil },
			stet.UndoDo(func(context.Context) error {
				fmt.Println("give back", seats, "seats")
				return nil
			}))
		if err != nil {
			return "", err
		}
		if seats > 4 {
			return "", stet.Rollback(errors.New("too many seats"))
		}
		return "", errors.New("call us, we keep your seats")
	}, stet.UndoOnRollback)
	engine, stop := background(book)
	defer stop()

	_, err := result(engine, book, 2)
	fmt.Println(errors.Unwrap(err))
	_, err = result(engine, book, 5)
	fmt.Println(errors.Unwrap(err))
	// Output:
	// call us, we keep your seats
	// give back 5 seats
	// too many seats
}

// A step finds that the whole order must be taken back: it is not tried again, and its
// error requests the undoing when the function returns it.
func ExampleRollback_step() {
	order := stet.Define("order", func(ctx stet.Context, _ int) (int, error) {
		err := stet.Do(ctx, "reserve", func(context.Context) error { return nil },
			stet.UndoDo(func(context.Context) error {
				fmt.Println("release the goods")
				return nil
			}))
		if err != nil {
			return 0, err
		}
		err = stet.Do(ctx, "charge", func(context.Context) error {
			return stet.Rollback(errors.New("the card is stolen"))
		})
		if err != nil {
			err = fmt.Errorf("pay: %w", err)
		}
		return 0, err
	}, stet.UndoOnRollback)
	engine, stop := background(order)
	defer stop()

	_, err := result(engine, order, 0)
	fmt.Println(errors.Unwrap(err))
	// Output:
	// release the goods
	// pay: step charge failed: the card is stolen
}
