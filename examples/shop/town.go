package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-run/stet"
)

// tables are those of the application, and of the town.
const tables = `
	CREATE TABLE orders (id text PRIMARY KEY, sku text NOT NULL, pieces int NOT NULL, cents bigint NOT NULL, token text);
	CREATE TABLE stock (sku text PRIMARY KEY, free int NOT NULL);
	CREATE TABLE reservations (order_id text PRIMARY KEY, sku text NOT NULL, pieces int NOT NULL);
	CREATE TABLE charges (key text PRIMARY KEY, order_id text NOT NULL, cents bigint NOT NULL, refunded bool NOT NULL);
	CREATE TABLE bookings (key text PRIMARY KEY, carrier text NOT NULL, order_id text NOT NULL, cancelled bool NOT NULL);
	INSERT INTO stock VALUES ('tea', 100), ('anvil', 3)`

// town is a bank and carriers that keep their books in tables. They stand for services elsewhere: nothing of them is
// in a transaction with a step, and they know requests that come again by their keys.
type town struct{ pool *pgxpool.Pool }

func (w town) Charge(ctx context.Context, o Order, key string) error {
	_, err := w.pool.Exec(ctx, "INSERT INTO charges VALUES ($1, $2, $3, false) ON CONFLICT (key) DO NOTHING",
		key, o.ID, o.Cents)
	return err
}

func (w town) Refund(ctx context.Context, o Order) error {
	_, err := w.pool.Exec(ctx, "UPDATE charges SET refunded = true WHERE order_id = $1", o.ID)
	return err
}

func (w town) Book(ctx context.Context, carrier string, o Order, key string) (string, error) {
	_, err := w.pool.Exec(ctx, "INSERT INTO bookings VALUES ($1, $2, $3, false) ON CONFLICT (key) DO NOTHING",
		key, carrier, o.ID)
	return key, err
}

func (w town) CancelBooking(ctx context.Context, booking string) error {
	_, err := w.pool.Exec(ctx, "UPDATE bookings SET cancelled = true WHERE key = $1", booking)
	return err
}

// most is what the carriers' vans take, in grams.
var most = map[string]int{"north": 1_000, "south": 30_000}

func (w town) PickUp(_ context.Context, carrier, _ string, grams int) error {
	if grams > most[carrier] {
		return stet.Permanent(fmt.Errorf("%s, %d g: %w", carrier, grams, errNoVan))
	}
	return nil
}
