package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-run/stet"
)

// Order is what a customer buys.
type Order struct {
	ID      string `json:"id"`
	SKU     string `json:"sku"`
	Pieces  int    `json:"pieces"`
	Cents   int64  `json:"cents"`
	Address string `json:"address"`
}

// Stage is how far an order is, for everybody who wants to know.
var Stage = stet.Value[string]("stage")

// world is the bank and the carriers. Its methods are called in steps. What must not happen twice gets an idempotency
// key, because a step whose success was not recorded is executed again.
type world interface {
	Charge(ctx context.Context, o Order, key string) error
	Refund(ctx context.Context, o Order) error
	Book(ctx context.Context, carrier string, o Order, key string) (booking string, err error)
	CancelBooking(ctx context.Context, booking string) error
	PickUp(ctx context.Context, carrier, booking string, grams int) error
}

// These end an order, or one way of it. The engine knows them by codes, so that errors.Is finds them after a replay.
var (
	errSoldOut   = errors.New("sold out")
	errNoVan     = errors.New("no van for that")
	errNoAddress = errors.New("an order without an address")

	errorCodes = []stet.ErrorCode{
		stet.Sentinel("sold-out", errSoldOut), stet.Sentinel("no-van", errNoVan),
		stet.Sentinel("no-address", errNoAddress),
	}
)

// patience is how long the warehouse may take.
const patience = 7 * 24 * time.Hour

// shop is the workflow with what its steps use.
type shop struct {
	world
	pool     *pgxpool.Pool // the application's own tables, in the database that keeps the runs too
	carriers []string      // in the order in which they are tried
	orders   *stet.Workflow[Order, string]
}

func newShop(pool *pgxpool.Pool, w world) *shop {
	s := &shop{world: w, pool: pool, carriers: []string{"north", "south"}}
	s.orders = stet.Define("order", s.order)
	return s
}

// runID is the ID of an order's run.
func runID(order string) string { return "order-" + order }

// place writes the order and starts its run: both are there, or neither.
func (s *shop) place(ctx context.Context, e *stet.Engine, o Order) (run *stet.Run[string], err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id, sku, pieces, cents) VALUES ($1, $2, $3, $4)",
			o.ID, o.SKU, o.Pieces, o.Cents); err != nil {
			return err
		}
		run, err = stet.StartTx(ctx, tx, e, s.orders, o, stet.ID(runID(o.ID)))
		return err
	})
	return run, err
}

// order sells: it takes the goods from the stock and the money from the customer, waits for the warehouse, and finds a
// carrier, whose name it returns. If it fails or is cancelled, the compensations give the money and the goods back.
//
// The code has been changed while orders were under way. Those that had passed the check's place go on without it; the
// fax, which they have sent, is sent no more.
func (s *shop) order(ctx stet.Context, o Order) (string, error) {
	if stet.Version(ctx, "check the address", 1) >= 1 {
		if err := s.check(ctx, o); err != nil {
			return "", err
		}
	}
	if err := s.reserve(ctx, o); err != nil {
		return "", err
	}
	if err := s.charge(ctx, o); err != nil {
		return "", err
	}
	stet.Removed(ctx, "fax")
	grams, err := s.pack(ctx, o)
	if err != nil {
		return "", err
	}
	return s.ship(ctx, o, grams)
}

func (s *shop) check(ctx stet.Context, o Order) error {
	return stet.Do(ctx, "check", func(context.Context) error {
		if o.Address == "" {
			return stet.Permanent(errNoAddress)
		}
		return nil
	})
}

// reserve takes the goods, exactly once: the rows and the record of the step are committed together.
func (s *shop) reserve(ctx stet.Context, o Order) error {
	_, err := stet.TxStep(ctx, "reserve", s.pool.Begin, func(ctx context.Context, tx pgx.Tx) (left int, err error) {
		err = tx.QueryRow(ctx, "UPDATE stock SET free = free - $2 WHERE sku = $1 AND free >= $2 RETURNING free",
			o.SKU, o.Pieces).Scan(&left)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, stet.Permanent(errSoldOut)
		}
		if err == nil {
			_, err = tx.Exec(ctx, "INSERT INTO reservations (order_id, sku, pieces) VALUES ($1, $2, $3)",
				o.ID, o.SKU, o.Pieces)
		}
		return left, err
	}, stet.UndoDo(func(ctx context.Context) error {
		// Executed again it finds no reservation, and gives nothing back.
		_, err := s.pool.Exec(ctx, `WITH gone AS (DELETE FROM reservations WHERE order_id = $1 RETURNING sku, pieces)
			UPDATE stock SET free = free + gone.pieces FROM gone WHERE stock.sku = gone.sku`, o.ID)
		return err
	}))
	if err != nil {
		return err
	}
	return Stage.Set(ctx, "reserved")
}

// charge takes the money. The bank is elsewhere: the key sees to it that a second attempt takes nothing.
func (s *shop) charge(ctx stet.Context, o Order) error {
	err := stet.Do(ctx, "charge", func(ctx context.Context) error {
		return s.Charge(ctx, o, stet.IdempotencyKey(ctx))
	}, stet.UndoDo(func(ctx context.Context) error { return s.Refund(ctx, o) }))
	if err != nil {
		return err
	}
	return Stage.Set(ctx, "paid")
}

// pack waits until the warehouse has packed the order, and returns the weight. The warehouse finds the token, which is
// the right to say so, in the order's row.
func (s *shop) pack(ctx stet.Context, o Order) (grams int, err error) {
	packed, err := stet.NewPromise[int](ctx, "packed")
	if err != nil {
		return 0, err
	}
	if err := stet.Do(ctx, "ask", func(ctx context.Context) error {
		_, err := s.pool.Exec(ctx, "UPDATE orders SET token = $2 WHERE id = $1", o.ID, packed.Token())
		return err
	}); err != nil {
		return 0, err
	}
	if err := Stage.Set(ctx, "packing"); err != nil {
		return 0, err
	}
	return packed.Await(ctx, stet.Within(patience))
}

// packed is what the warehouse calls, in whichever process.
func (s *shop) packed(ctx context.Context, e *stet.Engine, order string, grams int) error {
	var token *string
	err := s.pool.QueryRow(ctx, "SELECT token FROM orders WHERE id = $1", order).Scan(&token)
	if err != nil {
		return fmt.Errorf("order %s: %w", order, err)
	}
	if token == nil {
		return fmt.Errorf("order %s is not ready to be packed: try again when its stage is packing", order)
	}
	return e.Resolve(ctx, *token, grams)
}

// ship tries one carrier after the other. What was booked with one that then has no van is cancelled first.
func (s *shop) ship(ctx stet.Context, o Order, grams int) (string, error) {
	var refused []error
	for _, carrier := range s.carriers {
		_, err := stet.Saga(ctx, "ship with "+carrier, func(ctx stet.Context) (string, error) {
			booking, err := stet.Step(ctx, "book", func(ctx context.Context) (string, error) {
				return s.Book(ctx, carrier, o, stet.IdempotencyKey(ctx))
			}, stet.Undo(s.CancelBooking))
			if err != nil {
				return "", err
			}
			return booking, stet.Do(ctx, "pick up", func(ctx context.Context) error {
				return s.PickUp(ctx, carrier, booking, grams)
			})
		})
		switch {
		case err == nil:
			return carrier, Stage.Set(ctx, "shipped with "+carrier)
		case !errors.Is(err, errNoVan):
			return "", err
		}
		refused = append(refused, err)
	}
	return "", errors.Join(refused...)
}
