package stet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet"
)

func quote(name string, price int, fails bool) func(stet.Context) (int, error) {
	return func(ctx stet.Context) (int, error) {
		return stet.Step(ctx, "ask", func(context.Context) (int, error) {
			if fails {
				return 0, stet.Permanent(errors.New(name + " does not answer"))
			}
			return price, nil
		})
	}
}

// Branches run in parallel. Join waits for all of them, of any types.
func ExampleGo() {
	trip := stet.Define("trip", func(ctx stet.Context, _ int) (string, error) {
		flight := stet.Go(ctx, "flight", quote("the airline", 200, false))
		hotel := stet.Go(ctx, "hotel", func(ctx stet.Context) (string, error) {
			return stet.Step(ctx, "book", func(context.Context) (string, error) { return "room 12", nil })
		})
		if err := stet.Join(ctx, flight, hotel); err != nil {
			return "", err
		}
		price, _ := flight.Result()
		room, _ := hotel.Result()
		return fmt.Sprint(price, " and ", room), nil
	})
	engine, stop := background(trip)
	defer stop()

	fmt.Println(result(engine, trip, 0))
	// Output: 200 and room 12 <nil>
}

// All gives every value, in the order of arguments, or the first failure.
func ExampleAll() {
	compare := stet.Define("compare", func(ctx stet.Context, _ int) ([]int, error) {
		return stet.All(ctx, stet.Go(ctx, "a", quote("a", 3, false)), stet.Go(ctx, "b", quote("b", 5, false)))
	})
	engine, stop := background(compare)
	defer stop()

	fmt.Println(result(engine, compare, 0))
	// Output: [3 5] <nil>
}

// Any gives the first success, says whose it is, and cancels the others.
func ExampleAny() {
	fallback := stet.Define("fallback", func(ctx stet.Context, _ int) (string, error) {
		a, b := stet.Go(ctx, "a", quote("a", 3, true)), stet.Go(ctx, "b", quote("b", 5, false))
		winner, price, err := stet.Any(ctx, a, b)
		if err != nil {
			return "", err
		}
		return fmt.Sprint([]string{"a", "b"}[winner], " for ", price), nil
	})
	engine, stop := background(fallback)
	defer stop()

	fmt.Println(result(engine, fallback, 0))
	// Output: b for 5 <nil>
}

// Race gives the first outcome, success or failure, and cancels the others. The
// winner is the same in every replay.
func ExampleRace() {
	hurry := stet.Define("hurry", func(ctx stet.Context, _ int) (string, error) {
		slow := stet.Go(ctx, "slow", func(ctx stet.Context) (string, error) {
			return "slow", stet.Sleep(ctx, "day", 24*time.Hour)
		})
		fast := stet.Go(ctx, "fast", func(ctx stet.Context) (string, error) {
			return "fast", stet.Sleep(ctx, "blink", time.Millisecond)
		})
		winner, value, err := stet.Race(ctx, slow, fast)
		return fmt.Sprint(value, " at place ", winner), err
	})
	engine, stop := background(hurry)
	defer stop()

	fmt.Println(result(engine, hurry, 0))
	// Output: fast at place 1 <nil>
}

// A failure that wins a Race, or ends an All, carries the name of its branch.
func ExampleBranchError() {
	hurry := stet.Define("hurry", func(ctx stet.Context, _ int) (string, error) {
		_, _, err := stet.Race(ctx,
			stet.Go(ctx, "patient", func(ctx stet.Context) (int, error) { return 0, stet.Sleep(ctx, "day", 24*time.Hour) }),
			stet.Go(ctx, "rash", func(stet.Context) (int, error) { return 0, errors.New("sold out") }))
		var lost stet.BranchError
		if errors.As(err, &lost) {
			return lost.Name + " has failed: " + lost.Err.Error(), nil
		}
		return "", err
	})
	engine, stop := background(hurry)
	defer stop()

	fmt.Println(result(engine, hurry, 0))
	// Output: rash has failed: sold out <nil>
}

// Branches of different types race in a Select. It cancels no loser: the function does
// that when it returns.
func ExampleFuture_Case() {
	trip := stet.Define("trip", func(ctx stet.Context, _ int) (string, error) {
		price := stet.Go(ctx, "price", quote("the airline", 200, false))
		answer := stet.Go(ctx, "answer", func(ctx stet.Context) (string, error) {
			return "no", stet.Sleep(ctx, "day", 24*time.Hour)
		})
		won, err := stet.Select(ctx, price.Case(), answer.Case())
		if err != nil || won != 0 {
			return "", err
		}
		amount, err := price.Result()
		return fmt.Sprint(price.Name(), " ", amount), err
	})
	engine, stop := background(trip)
	defer stop()

	fmt.Println(result(engine, trip, 0))
	// Output: price 200 <nil>
}

// Map runs a branch for each item, some at a time. With KeyBy an item keeps its
// records when it comes at another place.
func ExampleMap() {
	pack := stet.Define("pack", func(ctx stet.Context, skus []string) ([]string, error) {
		return stet.Map(ctx, "pack", skus, func(ctx stet.Context, sku string) (string, error) {
			return stet.Step(ctx, "pick", func(context.Context) (string, error) { return "box of " + sku, nil })
		}, stet.MapLimit(2), stet.KeyBy(func(sku string) string { return sku }))
	})
	engine, stop := background(pack)
	defer stop()

	fmt.Println(result(engine, pack, []string{"tea", "mugs", "spoons"}))
	// Output: [box of tea box of mugs box of spoons] <nil>
}

// Settled gives branches as they end. More are begun meanwhile: here, one again that has
// failed.
func ExampleSettled() {
	gather := stet.Define("gather", func(ctx stet.Context, shops []string) ([]string, error) {
		var open stet.Settled[int]
		for _, shop := range shops {
			open.Add(stet.Go(ctx, shop, quote(shop, len(shop), shop == "closed")))
		}
		var seen []string
		for open.Len() > 0 {
			branch, err := open.Next(ctx)
			if err != nil {
				return nil, err
			}
			price, err := branch.Result()
			if err != nil {
				open.Add(stet.Go(ctx, "instead of "+branch.Name(), quote("another", 9, false)))
				continue
			}
			seen = append(seen, fmt.Sprint(branch.Name(), ": ", price))
		}
		slices.Sort(seen)
		return seen, nil
	})
	engine, stop := background(gather)
	defer stop()

	fmt.Println(result(engine, gather, []string{"tea", "closed", "mugs"}))
	// Output: [instead of closed: 9 mugs: 4 tea: 3] <nil>
}

// In a Select, what has come by a deadline counts.
func ExampleSettled_Case() {
	gather := stet.Define("gather", func(ctx stet.Context, _ int) (string, error) {
		var open stet.Settled[int]
		open.Add(
			stet.Go(ctx, "late", func(ctx stet.Context) (int, error) { return 0, stet.Sleep(ctx, "day", 24*time.Hour) }),
			stet.Go(ctx, "now", quote("now", 7, false)),
		)
		deadline := stet.Now(ctx).Add(time.Second)
		for sum := 0; ; {
			var branch *stet.Future[int]
			won, err := stet.Select(ctx, open.Case(&branch), stet.AtTime("deadline", deadline))
			if err != nil {
				return "", err
			}
			if won == 1 {
				return fmt.Sprint(sum, ", without ", open.Len()), nil
			}
			price, _ := branch.Result()
			sum += price
		}
	})
	engine, stop := background(gather)
	defer stop()

	fmt.Println(result(engine, gather, 0))
	// Output: 7, without 1 <nil>
}

// Cancel ends one branch. Its code sees that as an error, and may clean up.
func ExampleFuture_Cancel() {
	watch := stet.Define("watch", func(ctx stet.Context, _ int) (bool, error) {
		alarm := stet.Go(ctx, "alarm", func(ctx stet.Context) (int, error) { return 0, stet.Sleep(ctx, "day", 24*time.Hour) })
		if err := stet.Do(ctx, "work", func(context.Context) error { return nil }); err != nil {
			return false, err
		}
		alarm.Cancel(ctx)
		_, err := alarm.Await(ctx)
		return errors.Is(err, stet.ErrCancelled), nil
	})
	engine, stop := background(watch)
	defer stop()

	fmt.Println(result(engine, watch, 0))
	// Output: true <nil>
}
