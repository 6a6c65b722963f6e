package e2e_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/memory"
	"github.com/stet-run/stet/store/sqlite"
)

// TestTransactions starts a run and sends to it in a transaction of the user's:
// nothing of it is there before the commit, nothing after a rollback, and the
// user's own rows come and go with it.
func TestTransactions(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	path := filepath.Join(t.TempDir(), "app.db")
	s, err := sqlite.Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	e := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{oneWord}})
	db, err := sql.Open("sqlite3", "file:"+path+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, commit := range []bool{false, true} {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		run, err := stet.StartTx(ctx, tx, e, oneWord, 1, stet.ID("r"))
		if err != nil {
			t.Fatal(err)
		}
		if commit { // the run lives, if only in this transaction
			_, err := stet.StartTx(ctx, tx, e, oneWord, 1, stet.ID("r"), stet.ReplaceEnded,
				stet.FirstMessage(word, "hello", stet.SendKey("k")))
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := stet.SendTx(ctx, tx, e, word, "r", "hello", stet.SendKey("k")); err != nil {
			t.Fatal(err)
		}
		if err := stet.SendTx(ctx, tx, e, word, "r", "again", stet.SendKey("k")); err != nil {
			t.Fatal(err)
		}
		if err := stet.SendTx(ctx, tx, e, word, "none", "hello"); !errors.Is(err, stet.ErrNotFound) {
			t.Fatal(err)
		}
		if _, err := e.Runs().Info(ctx, "r"); !errors.Is(err, stet.ErrNotFound) {
			t.Fatalf("the run is there before the commit: %v", err)
		}
		if !commit {
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Runs().Info(ctx, "r"); !errors.Is(err, stet.ErrNotFound) {
				t.Fatalf("the run is there after a rollback: %v", err)
			}
			continue
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if got, err := run.Wait(ctx); err != nil || got != "hello" {
			t.Fatalf("got %q, %v", got, err)
		}
		if tx, err = db.BeginTx(ctx, nil); err != nil {
			t.Fatal(err)
		}
		first := stet.FirstMessage(word, "second")
		if _, err := stet.StartTx(ctx, tx, e, oneWord, 1, stet.ID("r"), first); !errors.Is(err, stet.ErrTerminal) {
			t.Errorf("a first message to a run that has ended: %v; want ErrTerminal", err)
		}
		if run, err = stet.StartTx(ctx, tx, e, oneWord, 1, stet.ID("r"), first, stet.ReplaceEnded); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if got, err := run.Wait(ctx); err != nil || got != "second" {
			t.Fatalf("the successor: got %q, %v", got, err)
		}
	}
}

// TestNilTransaction is refused, of either kind of call.
func TestNilTransaction(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "app.db"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := stet.New(t.Context(), stet.Config{Store: s, Workflows: []stet.Definition{oneWord}})
	if err != nil {
		t.Fatal(err)
	}
	var tx *sql.Tx
	if _, err := stet.StartTx(t.Context(), tx, e, oneWord, 1); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("StartTx: %v", err)
	}
	if err := stet.SendTx(t.Context(), tx, e, word, "r", "hello"); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("SendTx: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestTransactionOfAnotherStore(t *testing.T) {
	t.Parallel()
	e, err := stet.New(t.Context(), stet.Config{Store: memory.New(), Workflows: []stet.Definition{oneWord}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stet.StartTx(context.Background(), &sql.Tx{}, e, oneWord, 1); !errors.Is(err, stet.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// TestAnInboxIsFullForATransaction: what transactions send is counted like what others send. A
// message that finds the inbox full is refused before anything is written, so the transaction
// can be committed without it.
func TestAnInboxIsFullForATransaction(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	path := filepath.Join(t.TempDir(), "app.db")
	s, err := sqlite.Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w := stet.Define("slow", func(ctx stet.Context, _ int) (string, error) {
		if _, err := counter.Receive(ctx); err != nil {
			return "", err
		}
		var all string
		for range 4 {
			text, err := word.Receive(ctx)
			if err != nil {
				return "", err
			}
			all += text
		}
		return all, nil
	})
	e := serve(t, stet.Config{Store: s, Workflows: []stet.Definition{w}, MaxInbox: 3})
	db, err := sql.Open("sqlite3", "file:"+path+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (id TEXT)"); err != nil {
		t.Fatal(err)
	}
	r := begin(t, e, w, 0, stet.ID("r"))
	// send sends messages in one transaction, which is committed with a row in any case, and
	// returns the error of the last one.
	send := func(texts ...string) (last error) {
		t.Helper()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if last != nil {
				t.Fatal(last)
			}
			last = stet.SendTx(ctx, tx, e, word, "r", text)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?)", texts[0]); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		return last
	}
	if err := send("a", "b"); err != nil {
		t.Fatal(err)
	}
	if err := send("c"); err != nil {
		t.Fatal(err)
	}
	if err := send("x"); !errors.Is(err, stet.ErrInboxFull) {
		t.Errorf("a fourth message: %v", err)
	}
	if err := word.Send(ctx, e, "r", "y"); !errors.Is(err, stet.ErrInboxFull) {
		t.Errorf("a message beside the transactions: %v", err)
	}
	if err := send("z"); !errors.Is(err, stet.ErrInboxFull) {
		t.Errorf("another transaction: %v", err)
	}
	var rows int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&rows); err != nil || rows != 4 {
		t.Errorf("the transactions have written %d rows, %v", rows, err)
	}
	info, err := e.Runs().Info(ctx, "r")
	if err != nil {
		t.Fatal(err)
	}
	items, err := s.Inbox(ctx, info.Number)
	if err != nil || len(items) != 3 {
		t.Errorf("the inbox holds %d messages, %v", len(items), err)
	}
	if err := counter.Send(ctx, client(t, s), "r", 1); err != nil { // a process with another limit
		t.Fatal(err)
	}
	for { // until the process looks again and finds room
		err := send("d")
		if err == nil {
			break
		}
		if !errors.Is(err, stet.ErrInboxFull) || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if got, err := r.Wait(ctx); err != nil || got != "abcd" {
		t.Errorf("it has received %q, %v", got, err)
	}
}
