package postgres_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/postgres"
)

type transfer struct {
	From, To string
	Cents    int64
}

// The balance of both accounts and the record of the step are written in one
// transaction: whatever crashes, the money moves once.
func Example() {
	ctx := context.Background()
	const dsn = "postgres://app@db.example.com/bank"
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	db, err := postgres.Open(ctx, dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	move := stet.Define("transfer", func(ctx stet.Context, t transfer) (int64, error) {
		return stet.TxStep(ctx, "book", pool.Begin, func(ctx context.Context, tx pgx.Tx) (left int64, err error) {
			if _, err := tx.Exec(ctx, "UPDATE accounts SET cents=cents+$1 WHERE id=$2", t.Cents, t.To); err != nil {
				return 0, err
			}
			err = tx.QueryRow(ctx, "UPDATE accounts SET cents=cents-$1 WHERE id=$2 RETURNING cents", t.Cents, t.From).Scan(&left)
			return left, err
		})
	})
	engine, err := stet.New(ctx, stet.Config{Store: db, Workflows: []stet.Definition{move}})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = engine.Run(ctx) }() // an application waits for it

	run, err := move.Start(ctx, engine, transfer{"alice", "bob", 500}, stet.ID("transfer-1"))
	if err != nil {
		log.Fatal(err)
	}
	left, err := run.Wait(ctx)
	fmt.Println(left, err)
}

// A pooler in transaction mode stands before the server. What needs a session goes around it.
func ExampleDirect() {
	ctx := context.Background()
	s, err := postgres.Open(ctx, "postgres://app@pooler:6432/app", postgres.Direct("postgres://app@db:5432/app"))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
}
