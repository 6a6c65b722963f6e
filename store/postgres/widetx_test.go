package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/postgres"
)

// driver is one of the two ways in which an application has transactions, on each database of a store.
type driver[Tx any] struct {
	begin  []func(context.Context) (Tx, error)
	commit func(Tx) error
	flow   *stet.Workflow[int, string]
}

// newDriver returns the driver with a workflow of one TxStep on the database that its input names.
func newDriver[Tx any](name string, begin []func(context.Context) (Tx, error), commit func(Tx) error) driver[Tx] {
	return driver[Tx]{begin, commit, stet.Define(name, func(ctx stet.Context, on int) (string, error) {
		return stet.TxStep(ctx, "step", begin[on], func(context.Context, Tx) (string, error) { return "recorded", nil })
	})}
}

// TestTransactionsOfBothDriversSayWhereARunIsAtHome: with either database of a store what StartTx, SendTx and TxStep do
// is done if the run is at home there, and otherwise refused with the names of both; the transaction goes on.
func TestTransactionsOfBothDriversSayWhereARunIsAtHome(t *testing.T) {
	t.Parallel()
	one, other := newDatabase(t), newDatabase(t)
	w := openAll(t, []string{one.DSN(), other.DSN()}, postgres.AllowLoss(), postgres.Slots(8))
	var pools []func(context.Context) (pgx.Tx, error)
	var handles []func(context.Context) (*sql.Tx, error)
	for _, name := range w.Databases() {
		dsn := one.DSN()
		if strings.Contains(name, other.name+" at ") {
			dsn = other.DSN()
		}
		pool, err := pgxpool.New(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		db, err := sql.Open("pgx", dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() }) // nothing is written with it any more
		pools = append(pools, pool.Begin)
		handles = append(handles, func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) })
	}
	byPgx := newDriver("by pgx", pools, func(tx pgx.Tx) error { return tx.Commit(context.Background()) })
	bySQL := newDriver("by sql", handles, (*sql.Tx).Commit)
	e := serveWith(t, stet.Config{Store: w, Workflows: []stet.Definition{byPgx.flow, bySQL.flow, adding, leaf}})
	for home := range w.Databases() {
		byPgx.says(t, e, w, home)
		bySQL.says(t, e, w, home)
	}
}

// says checks that of runs that are at home in one database.
func (d driver[Tx]) says(t *testing.T, e *stet.Engine, w *postgres.Wide, home int) {
	t.Helper()
	ctx := t.Context()
	other := 1 - home
	refused := func(what string, err error) {
		t.Helper()
		for _, says := range []string{fmt.Sprintf("database %d (%s)", home, w.Databases()[home]),
			fmt.Sprintf("database %d (%s)", other, w.Databases()[other])} {
			if !strings.Contains(fmt.Sprint(err), "is at home in "+says) && !strings.Contains(fmt.Sprint(err), "is on "+says) {
				t.Errorf("%s elsewhere: %v; want %q in it", what, err, says)
			}
		}
	}
	receiver, started := w.NewID(home), w.NewID(home)
	sum, err := adding.Start(ctx, e, 1, stet.ID(receiver))
	if err != nil {
		t.Fatal(err)
	}
	for on, begin := range d.begin {
		tx, err := begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		run, err := stet.StartTx(ctx, tx, e, leaf, 5, stet.ID(started))
		sent := stet.SendTx(ctx, tx, e, number, receiver, 7)
		if on == home {
			if err := errors.Join(err, sent); err != nil {
				t.Fatal(err)
			}
		} else {
			if !errors.Is(err, stet.ErrInvalid) || !errors.Is(sent, stet.ErrInvalid) {
				t.Errorf("elsewhere: %v and %v; want ErrInvalid", err, sent)
			}
			refused("StartTx", err)
			refused("SendTx", sent)
		}
		if err := d.commit(tx); err != nil {
			t.Fatal(err)
		}
		if run != nil {
			if got, err := run.Wait(ctx); err != nil || got != 5 {
				t.Errorf("the run that was started in a transaction: %d, %v", got, err)
			}
		}
		step, err := d.flow.Start(ctx, e, on, stet.ID(w.NewID(home)))
		if err != nil {
			t.Fatal(err)
		}
		switch got, err := step.Wait(ctx); {
		case on != home:
			refused("TxStep", err)
		case err != nil || got != "recorded":
			t.Errorf("TxStep: %q, %v", got, err)
		}
	}
	if got, err := sum.Wait(ctx); err != nil || got != 7 {
		t.Errorf("what was sent in a transaction: %d, %v", got, err)
	}
}
