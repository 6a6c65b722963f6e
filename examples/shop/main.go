// Command shop sells from several nodes on one Postgres database, which has the shop's tables and the runs.
//
//	go run ./examples/shop [--dsn DSN] setup                 # makes the tables, once
//	go run ./examples/shop [--dsn DSN] serve                 # a node; start as many as you like
//	go run ./examples/shop [--dsn DSN] order ID SKU PIECES   # anvil, tea
//	go run ./examples/shop [--dsn DSN] pack ID GRAMS         # the warehouse; above 1,000 the first carrier has no van
//	go run ./examples/shop [--dsn DSN] watch ID              # shows how far an order is, until it ends
//
// Kill nodes at any moment: another one goes on, and nothing is taken or charged twice.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/examples/internal/app"
	"github.com/stet-run/stet/store/postgres"
)

// options say where the database is.
type options struct {
	dsn    string
	schema string // of the shop's tables; the runs are in another one, schema_runs
	loss   bool
}

func main() {
	var o options
	flag.StringVar(&o.dsn, "dsn", os.Getenv("SHOP_DSN"), "the database, as a `URL` or as keywords and values")
	flag.StringVar(&o.schema, "schema", "shop", "`schema` of the shop's tables; the runs are in SCHEMA_runs")
	flag.BoolVar(&o.loss, "allow-loss", false, "accept a server that may lose commits, to try things out")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	app.Main("shop", func(ctx context.Context) error { return run(ctx, o, flag.Args(), os.Stdout) })
}

const usage = "usage: shop [flags] setup | serve | order ID SKU PIECES | pack ID GRAMS | watch ID"

// run executes one command.
func run(ctx context.Context, o options, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	want := map[string]int{"setup": 1, "serve": 1, "order": 4, "pack": 3, "watch": 2}
	if want[args[0]] != len(args) {
		return errors.New(usage)
	}
	pool, db, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	defer db.Close()
	s := newShop(pool, town{pool})
	engine, err := stet.New(ctx, stet.Config{Store: db, Workflows: []stet.Definition{s.orders}, Errors: errorCodes})
	if err != nil {
		return err
	}
	switch args[0] {
	case "setup":
		_, err := pool.Exec(ctx, "CREATE SCHEMA "+o.schema+";"+tables)
		return err
	case "serve":
		return engine.Run(ctx)
	case "order":
		pieces, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		order := Order{ID: args[1], SKU: args[2], Pieces: pieces, Cents: 1990 * int64(pieces), Address: "1 Main Street"}
		_, err = s.place(ctx, engine, order)
		return err
	case "pack":
		grams, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return s.packed(ctx, engine, args[1], grams)
	}
	for stage, err := range Stage.Watch(ctx, engine, runID(args[1])) {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, stage); err != nil {
			return err
		}
	}
	_, err = s.orders.Handle(engine, runID(args[1])).Wait(ctx)
	return err
}

// open opens the database twice: as the application, and as the store of the runs.
func (o options) open(ctx context.Context) (*pgxpool.Pool, *postgres.Store, error) {
	pool, err := o.tables(ctx)
	if err != nil {
		return nil, nil, err
	}
	db, err := o.runs(ctx)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return pool, db, nil
}

func (o options) tables(ctx context.Context) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(o.dsn)
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.RuntimeParams["search_path"] = o.schema
	return pgxpool.NewWithConfig(ctx, cfg)
}

func (o options) runs(ctx context.Context) (*postgres.Store, error) {
	opts := []postgres.Option{postgres.Schema(o.schema + "_runs")}
	if o.loss {
		opts = append(opts, postgres.AllowLoss())
	}
	return postgres.Open(ctx, o.dsn, opts...)
}
