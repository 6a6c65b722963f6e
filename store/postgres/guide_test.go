package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store/postgres"
)

// The code of the guide's page on transactions, executed.

type Order struct {
	ID    string
	Cents int64
}

var Paid = stet.Message[int64]("paid")

// placeOrder writes the order and starts its run: both are there, or neither.
func placeOrder(
	ctx context.Context, pool *pgxpool.Pool, e *stet.Engine, ship *stet.Workflow[Order, string], o Order,
) (run *stet.Run[string], err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id, cents) VALUES ($1, $2)", o.ID, o.Cents); err != nil {
			return err
		}
		run, err = stet.StartTx(ctx, tx, e, ship, o, stet.ID("order-"+o.ID))
		return err
	})
	return run, err
}

// pay records a payment and notifies the order's run: both, or neither.
func pay(ctx context.Context, pool *pgxpool.Pool, e *stet.Engine, order string, cents int64) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE orders SET paid = paid + $1 WHERE id = $2", cents, order); err != nil {
			return err
		}
		return stet.SendTx(ctx, tx, e, Paid, "order-"+order, cents, stet.SendKey("payment"))
	})
}

// shipping returns a workflow that takes goods from the stock, exactly once.
func shipping(pool *pgxpool.Pool) *stet.Workflow[Order, string] {
	return stet.Define("ship", func(ctx stet.Context, o Order) (string, error) {
		if _, err := Paid.Receive(ctx); err != nil {
			return "", err
		}
		return stet.TxStep(ctx, "reserve", pool.Begin, func(ctx context.Context, tx pgx.Tx) (shelf string, err error) {
			err = tx.QueryRow(ctx, "UPDATE stock SET free = free - 1 WHERE free > 0 RETURNING shelf").Scan(&shelf)
			return shelf, err // TxStep commits, or rolls back if there is an error
		})
	})
}

func TestGuide(t *testing.T) {
	ctx := t.Context()
	dsn, schema := servers.SharedPostgres(t)
	s := open(t, dsn, postgres.Schema(schema), postgres.AllowLoss())
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(ctx, `
		CREATE TABLE orders (id text PRIMARY KEY, cents bigint NOT NULL, paid bigint NOT NULL DEFAULT 0);
		CREATE TABLE stock (shelf text PRIMARY KEY, free int NOT NULL);
		INSERT INTO stock VALUES ('A7', 5)`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(context.Background(), "DROP TABLE orders, stock"); err != nil {
			t.Error(err)
		}
	})
	ship := shipping(pool)
	e := serve(t, s, ship)

	run, err := placeOrder(ctx, pool, e, ship, Order{"1", 500})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := placeOrder(ctx, pool, e, ship, Order{"1", 900}); err == nil {
		t.Error("an order was placed twice")
	}
	if err := pay(ctx, pool, e, "1", 500); err != nil {
		t.Fatal(err)
	}
	if shelf, err := run.Wait(ctx); shelf != "A7" || err != nil {
		t.Errorf("got %q, %v", shelf, err)
	}
	var paid, free int
	if err := pool.QueryRow(ctx, "SELECT paid, free FROM orders, stock").Scan(&paid, &free); err != nil {
		t.Fatal(err)
	}
	if paid != 500 || free != 4 {
		t.Errorf("paid %d, free %d", paid, free)
	}
}
