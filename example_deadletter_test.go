package stet_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// What a run has not received by its end is kept as a dead letter, and can be
// sent again to another run.
func ExampleEngine_DeadLetters() {
	item := stet.Message[string]("item")
	pack := stet.Define("pack", func(ctx stet.Context, _ int) (string, error) { return item.Receive(ctx) })
	engine, stop := background(pack)
	defer stop()
	ctx := context.Background()

	first, err := pack.Start(ctx, engine, 0, stet.ID("parcel-1"), stet.FirstMessage(item, "cup"),
		stet.FirstMessage(item, "plate"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(first.Wait(ctx))

	letters, _, err := engine.DeadLetters().List(ctx, store.DeadFilter{RunIDs: []string{"parcel-1"}, Values: true})
	if err != nil || len(letters) != 1 {
		fmt.Println(len(letters), err)
		return
	}
	var left string
	fmt.Println(letters[0].Name, letters[0].Decode(&left), left)

	second, err := pack.Start(ctx, engine, 0, stet.ID("parcel-2"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := engine.DeadLetters().Replay(ctx, letters[0].Number, "parcel-2", stet.Act{}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(second.Wait(ctx))
	removed, err := engine.DeadLetters().Remove(ctx, stet.Act{By: "ada"}, letters[0].Number)
	fmt.Println("left to remove:", removed, err)
	// Output:
	// cup <nil>
	// item <nil> plate
	// plate <nil>
	// left to remove: 0 <nil>
}

// What becomes of messages that a run has not received by its end may differ by their kind.
func ExampleDiscardDeadLetters() {
	position, payment := stet.Message[int]("position"), stet.Message[int]("payment")
	trip := stet.Define("trip", func(ctx stet.Context, _ int) (int, error) { return position.Receive(ctx) },
		stet.DiscardDeadLetters(position)) // the last positions are of no use, a payment is
	engine, stop := background(trip)
	defer stop()
	ctx := context.Background()

	run, err := trip.Start(ctx, engine, 0, stet.ID("trip-1"), stet.FirstMessage(position, 1),
		stet.FirstMessage(position, 2), stet.FirstMessage(payment, 30))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Wait(ctx))
	letters, _, err := engine.DeadLetters().List(ctx, store.DeadFilter{RunIDs: []string{"trip-1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range letters {
		fmt.Println("kept:", l.Name)
	}
	// Output:
	// 1 <nil>
	// kept: payment
}

// A message that is of no use tomorrow expires: a run that comes to it too late waits for
// the next one.
func ExampleExpiresIn() {
	offer := stet.Message[string]("offer")
	buy := stet.Define("buy", func(ctx stet.Context, _ int) (string, error) { return offer.Receive(ctx) })
	engine, stop := background(buy)
	defer stop()
	ctx := context.Background()

	run, err := buy.Start(ctx, engine, 0, stet.ID("buyer-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(offer.Send(ctx, engine, "buyer-1", "half price", stet.ExpiresIn(24*time.Hour)))
	fmt.Println(run.Wait(ctx))
	// Output:
	// <nil>
	// half price <nil>
}
