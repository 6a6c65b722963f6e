package stet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// The history of a run is a tree of locations: branches, keys and occurrences are
// in the path. A key keeps the record of a call whose place may change.
func ExampleRuns_History() {
	nothing := func(context.Context) error { return nil }
	order := stet.Define("order", func(ctx stet.Context, lines []string) (int, error) {
		for _, line := range lines {
			if err := stet.Do(ctx, "reserve", nothing, stet.Key(line)); err != nil {
				return 0, err
			}
		}
		for range 2 {
			if err := stet.Do(ctx, "notify", nothing); err != nil {
				return 0, err
			}
		}
		shipping := stet.Go(ctx, "shipping", func(ctx stet.Context) (int, error) {
			return 1, stet.Do(ctx, "call", nothing)
		})
		return shipping.Await(ctx)
	})
	engine, stop := background(order)
	defer stop()
	ctx := context.Background()

	run, err := order.Start(ctx, engine, []string{"tea", "mugs"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := run.Wait(ctx); err != nil {
		fmt.Println(err)
	}
	entries, err := engine.Runs().History(ctx, run.ID(), stet.HistoryQuery{})
	for _, entry := range entries {
		fmt.Println(entry.Number, entry.Kind, entry.Location, entry.State)
	}
	fmt.Println(err)
	// Output:
	// 3 step notify done
	// 4 step notify#2 done
	// 2 step reserve/[mugs] done
	// 1 step reserve/[tea] done
	// 5 step shipping/call done
	// <nil>
}

// A history with values shows which messages were received, and which steps were undone.
func ExampleHistoryEntry_Messages() {
	approval := stet.Message[string]("approval")
	nothing := func(context.Context) error { return nil }
	release := stet.Define("release", func(ctx stet.Context, _ int) (int, error) {
		if _, err := approval.Receive(ctx); err != nil {
			return 0, err
		}
		if err := stet.Do(ctx, "publish", nothing, stet.UndoDo(nothing)); err != nil {
			return 0, err
		}
		return 0, errors.New("the tests of the customer fail")
	})
	engine, stop := background(release)
	defer stop()
	ctx := context.Background()

	run, err := release.Start(ctx, engine, 3)
	if err == nil {
		err = approval.Send(ctx, engine, run.ID(), "by Ann")
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = run.Wait(ctx) // it fails
	entries, err := engine.Runs().History(ctx, run.ID(), stet.HistoryQuery{Values: true})
	for i := range entries {
		e := &entries[i]
		messages, err := e.Messages()
		if err != nil {
			fmt.Println(err)
		}
		if e.Undone {
			fmt.Println(e.Location, "is undone")
		}
		for _, m := range messages {
			fmt.Printf("%s %s\n", m.Name, m.Value.Bytes()[1:])
		}
	}
	fmt.Println(err)
	// Output:
	// approval "by Ann"
	// publish is undone
	// <nil>
}

// HistoryEntry.Value is for programs that do not know the types of an application. The
// first byte says which codec has written the value.
func ExampleHistoryEntry_Value() {
	price := stet.Define("price", func(ctx stet.Context, item string) (int, error) {
		return stet.Step(ctx, "look up", func(context.Context) (int, error) { return len(item), nil })
	})
	engine, stop := background(price)
	defer stop()
	ctx := context.Background()

	run, err := price.Start(ctx, engine, "tea")
	if err == nil {
		_, err = run.Wait(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	entries, err := engine.Runs().History(ctx, run.ID(), stet.HistoryQuery{Values: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	value := entries[0].Value().Bytes()
	if value[0] == stet.JSON.Format() {
		fmt.Printf("%s is %s\n", entries[0].Location, value[1:])
	}
	// Output: look up is 3
}

// A store has locations in a form of its own, in which they are in order.
func ExampleLocationOf() {
	pack := stet.Define("pack", func(ctx stet.Context, item string) (string, error) {
		return stet.Step(ctx, "pick", func(context.Context) (string, error) { return item, nil })
	})
	engine, stop := background(pack)
	defer stop()
	ctx := context.Background()

	run, err := pack.Start(ctx, engine, "tea")
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := run.Wait(ctx); err != nil {
		fmt.Println(err)
		return
	}
	info, err := run.Info(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	entries, err := engine.Store().History(ctx, store.HistoryQuery{Run: info.Number})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(stet.LocationOf(entries[0].Loc))
	// Output: pick
}
