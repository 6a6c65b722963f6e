package stet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stet-run/stet"
)

// A child is undone like a step, in the order of all: with its result, by whatever takes its
// effect back. One that has failed has undone its own steps.
func ExampleUndo_child() {
	hotel := stet.Define("hotel", func(ctx stet.Context, city string) (string, error) { return "room in " + city, nil })
	trip := stet.Define("trip", func(ctx stet.Context, city string) (string, error) {
		_, err := hotel.Call(ctx, city, stet.Undo(func(_ context.Context, room string) error {
			fmt.Println("give back the", room)
			return nil
		}))
		if err != nil {
			return "", err
		}
		return "", errors.New("no flight")
	})
	engine, stop := background(hotel, trip)
	defer stop()

	_, err := result(engine, trip, "Oslo")
	fmt.Println(errors.Unwrap(err))
	// Output:
	// give back the room in Oslo
	// no flight
}

// A trip is booked with one supplier. If that cannot take all of it, what it has taken is
// given back, and then another one is tried.
func ExampleSaga() {
	seats := map[string]int{"north air": 0, "south air": 9}
	bookWith := func(ctx stet.Context, supplier string) (string, error) {
		return stet.Saga(ctx, "book with "+supplier, func(ctx stet.Context) (string, error) {
			_, err := stet.Step(ctx, "hotel", func(context.Context) (string, error) { return supplier + " hotel", nil },
				stet.Undo(func(_ context.Context, hotel string) error {
					fmt.Println("cancel the", hotel)
					return nil
				}))
			if err != nil {
				return "", err
			}
			return supplier, stet.Do(ctx, "flight", func(context.Context) error {
				if seats[supplier] == 0 {
					return stet.Permanent(errors.New("no seat"))
				}
				return nil
			}, stet.UndoDo(func(context.Context) error { return nil }))
		})
	}
	trip := stet.Define("trip", func(ctx stet.Context, _ string) (string, error) {
		supplier, err := bookWith(ctx, "north air")
		if err != nil {
			//stetvet:ignore log the output of the example
			fmt.Println("north air:", err)
			supplier, err = bookWith(ctx, "south air")
		}
		return "booked with " + supplier, err
	})
	engine, stop := background(trip)
	defer stop()

	fmt.Println(result(engine, trip, "Oslo"))
	// Output:
	// cancel the north air hotel
	// north air: step book with north air/flight failed: no seat
	// booked with south air <nil>
}
