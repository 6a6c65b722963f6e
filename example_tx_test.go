package stet_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/sqlite"
)

var wrap = stet.Message[string]("wrap")

// A run starts in the transaction that writes the application's own rows: both
// are there, or neither.
func ExampleStartTx() {
	ship := stet.Define("ship", func(ctx stet.Context, order int64) (string, error) {
		wrapping, err := wrap.Receive(ctx)
		return fmt.Sprintf("order %d is on its way, in %s", order, wrapping), err
	})
	dir, err := os.MkdirTemp("", "stet")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is a folder for temporary files
	file := filepath.Join(dir, "shop.db")

	s, err := sqlite.Open(context.Background(), file, sqlite.Shared())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	db, err := sql.Open("sqlite3", "file:"+filepath.ToSlash(file)+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	engine, err := stet.New(ctx, stet.Config{Store: s, Workflows: []stet.Definition{ship},
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- engine.Run(ctx) }()
	defer func() {
		stop()
		fmt.Println(<-ended)
	}()

	run, err := placeOrder(ctx, db, engine, ship)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Wait(ctx))
	// Output:
	// order 1 is on its way, in paper <nil>
	// <nil>
}

// Many runs are started in one transaction by one call: on Postgres each StartTx is a
// savepoint, of which a transaction is not to have more than 64.
func ExampleStartAllTx() {
	startLines := func(
		ctx context.Context, tx *sql.Tx, e *stet.Engine, ship *stet.Workflow[int64, string], lines []int64,
	) error {
		_, err := stet.StartAllTx(ctx, tx, e, ship, lines, func(i int) []stet.StartOption {
			return []stet.StartOption{stet.ID(fmt.Sprint("line-", lines[i]))}
		})
		return err
	}
	_ = startLines
}

func placeOrder(
	ctx context.Context, db *sql.DB, engine *stet.Engine, ship *stet.Workflow[int64, string],
) (_ *stet.Run[string], err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, what TEXT)"); err != nil {
		return nil, err
	}
	added, err := tx.ExecContext(ctx, "INSERT INTO orders (what) VALUES ('tea')")
	if err != nil {
		return nil, err
	}
	id, err := added.LastInsertId()
	if err != nil {
		return nil, err
	}
	run, err := stet.StartTx(ctx, tx, engine, ship, id)
	if err != nil {
		return nil, err
	}
	if err := stet.SendTx(ctx, tx, engine, wrap, run.ID(), "paper"); err != nil {
		return nil, err
	}
	return run, tx.Commit()
}
