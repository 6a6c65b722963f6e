package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// Order is what a customer buys. Amounts are cents.
type Order struct {
	ID    string `json:"id"`
	Card  string `json:"card"`
	Lines []Line `json:"lines"`
}

// Line is some pieces of one article.
type Line struct {
	SKU    string `json:"sku"`
	Pieces int    `json:"pieces"`
	Price  int    `json:"price"`
}

// Total is what the order costs.
func (o Order) Total() int {
	total := 0
	for _, l := range o.Lines {
		total += l.Pieces * l.Price
	}
	return total
}

// Receipt is what the customer gets.
type Receipt struct {
	Charge  string   `json:"charge"`
	Parcels []string `json:"parcels"`
}

// Arrival is the carrier's notice of a parcel, by its number.
type Arrival struct {
	Lost bool `json:"lost"`
}

// Arrived is sent to the run of a parcel by the carrier:
//
//	stet send parcel-17 arrived '{"lost":false}'
var Arrived = stet.Message[Arrival]("arrived")

// world is the bank, the shelf and the carrier. Its methods are called in steps;
// all get an idempotency key, because after a crash a step whose success was not
// recorded is executed again.
type world interface {
	Charge(ctx context.Context, card string, cents int, key string) (charge string, err error)
	Refund(ctx context.Context, charge, key string) error
	Reserve(ctx context.Context, l Line, key string) (reservation string, err error)
	Release(ctx context.Context, reservation, key string) error
	Ship(ctx context.Context, reservation, key string) (parcel string, err error)
}

// These end an order. They are known to the engine by codes, so that errors.Is
// finds them after a replay, and in an order whose parcel has failed with one.
var (
	errDeclined = errors.New("the card was declined")
	errSoldOut  = errors.New("sold out")
	errLost     = errors.New("lost on the way")

	errorCodes = []stet.ErrorCode{
		stet.Sentinel("declined", errDeclined), stet.Sentinel("sold-out", errSoldOut), stet.Sentinel("lost", errLost),
	}
)

// delivery is how long the carrier may take.
const delivery = 14 * 24 * time.Hour

// shop has two workflows: an order, and as its children the parcels.
type shop struct {
	world
	orders  *stet.Workflow[Order, Receipt]
	parcels *stet.Workflow[string, string]
}

func newShop(w world) *shop {
	s := &shop{world: w}
	s.orders = stet.Define("order", s.order, stet.IDFrom(func(o Order) string { return o.ID }))
	s.parcels = stet.Define("parcel", s.parcel)
	return s
}

// order charges the card, reserves every line, and starts a child for each parcel. If it fails or is cancelled, the
// compensations undo the charge and the reservations, newest first.
func (s *shop) order(ctx stet.Context, o Order) (Receipt, error) {
	charge, err := stet.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		return s.Charge(ctx, o.Card, o.Total(), stet.IdempotencyKey(ctx))
	}, stet.Undo(func(ctx context.Context, charge string) error {
		return s.Refund(ctx, charge, stet.IdempotencyKey(ctx))
	}), stet.Retry{Attempts: 8})
	if err != nil {
		return Receipt{}, err
	}

	bySKU := stet.KeyBy(func(l Line) string { return l.SKU })
	reservations, err := stet.Map(ctx, "reserve", o.Lines, func(ctx stet.Context, l Line) (string, error) {
		return stet.Step(ctx, "line", func(ctx context.Context) (string, error) {
			return s.Reserve(ctx, l, stet.IdempotencyKey(ctx))
		}, stet.Undo(func(ctx context.Context, reservation string) error {
			return s.Release(ctx, reservation, stet.IdempotencyKey(ctx))
		}))
	}, bySKU, stet.MapLimit(8))
	if err != nil {
		return Receipt{}, err
	}

	parcels, err := stet.Map(ctx, "ship", reservations, func(ctx stet.Context, reservation string) (string, error) {
		return s.parcels.Call(ctx, reservation)
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("order %s: %w", o.ID, err)
	}
	return Receipt{Charge: charge, Parcels: parcels}, nil
}

// parcel ships reserved goods and waits until they have arrived.
func (s *shop) parcel(ctx stet.Context, reservation string) (string, error) {
	parcel, err := stet.Step(ctx, "ship", func(ctx context.Context) (string, error) {
		return s.Ship(ctx, reservation, stet.IdempotencyKey(ctx))
	})
	if err != nil {
		return "", err
	}
	arrival, err := Arrived.Receive(ctx, stet.Within(delivery))
	switch {
	case errors.Is(err, stet.ErrTimeout):
		return "", fmt.Errorf("parcel %s has not arrived within %s: %w", parcel, delivery, errLost)
	case err != nil:
		return "", err
	case arrival.Lost:
		return "", fmt.Errorf("parcel %s: %w", parcel, errLost)
	}
	return parcel, nil
}
