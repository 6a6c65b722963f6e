// Command checkout sells: it charges a card, reserves the goods, ships them in parcels, and undoes the effects if the
// order fails on the way.
//
//	go run ./examples/checkout [--db FILE] [--lose] ORDER SKU…
//
// Killed at any moment and started again with the same order, it goes on. The bank, the shelf and the carrier are a log
// on the terminal; the carrier delivers at once, or with --lose never.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/examples/internal/app"
)

func main() {
	db := flag.String("db", "checkout.db", "SQLite `file` that keeps the runs")
	lose := flag.Bool("lose", false, "lose the parcels")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: checkout [flags] ORDER SKU…")
		flag.PrintDefaults()
		os.Exit(2)
	}
	o := Order{ID: flag.Arg(0), Card: "4242"}
	for _, sku := range flag.Args()[1:] {
		o.Lines = append(o.Lines, Line{SKU: sku, Pieces: 1, Price: 1990})
	}
	app.Main("checkout", func(ctx context.Context) error { return sell(ctx, *db, o, *lose, os.Stdout) })
}

// sell executes one order and prints its events.
func sell(ctx context.Context, db string, o Order, lose bool, out io.Writer) error {
	town := &town{out: out, lose: lose}
	s := newShop(town)
	engine, file, err := app.Open(ctx, db, stet.Config{Workflows: []stet.Definition{s.orders, s.parcels},
		Errors: errorCodes})
	if err != nil {
		return err
	}
	defer file.Close()
	town.engine = engine
	return app.Serve(ctx, engine, func(ctx context.Context) error {
		r, err := s.orders.Start(ctx, engine, o)
		if err != nil {
			return err
		}
		receipt, err := r.Wait(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "sold: charge %s, parcels %s\n", receipt.Charge, strings.Join(receipt.Parcels, ", "))
		return err
	})
}

// town is a world that prints. It derives its results from the keys, so that a repeated attempt gets the same.
type town struct {
	mu     sync.Mutex // parcels are shipped side by side
	out    io.Writer
	lose   bool
	engine *stet.Engine
}

func (t *town) Charge(_ context.Context, card string, cents int, key string) (string, error) {
	return t.do("charged", key, fmt.Sprintf("%d cents to card %s", cents, card))
}

func (t *town) Refund(_ context.Context, charge, key string) error {
	_, err := t.do("refunded", key, charge)
	return err
}

func (t *town) Reserve(_ context.Context, l Line, key string) (string, error) {
	return t.do("reserved", key, fmt.Sprintf("%d x %s", l.Pieces, l.SKU))
}

func (t *town) Release(_ context.Context, reservation, key string) error {
	_, err := t.do("released", key, reservation)
	return err
}

// Ship delivers at once: the message is there before the run waits for it.
func (t *town) Ship(ctx context.Context, reservation, key string) (string, error) {
	parcel, err := t.do("shipped", key, reservation)
	if err != nil {
		return "", err
	}
	step, _ := stet.StepOf(ctx)
	return parcel, Arrived.Send(ctx, t.engine, step.RunID, Arrival{Lost: t.lose}, stet.SendKey(key))
}

func (t *town) do(what, key, of string) (string, error) {
	name := what + "-" + key[:8]
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := fmt.Fprintf(t.out, "%s %s: %s\n", what, of, name)
	return name, err
}
