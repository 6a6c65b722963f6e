package sqlite

import (
	"database/sql"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/stet-run/stet/store"
)

// application opens the file as an application does.
func application(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestCommandsInACallersTransaction(t *testing.T) {
	s := open(t, foreign(t), Shared())
	db := application(t, s.Path())
	inTx := func(commit bool, commands ...store.Command) []store.Answer {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO runs VALUES (2)"); err != nil {
			t.Fatal(err)
		}
		answers, err := s.ApplyTx(t.Context(), tx, commands)
		if err != nil {
			t.Fatal(err)
		}
		if commit {
			err = tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			t.Fatal(err)
		}
		return answers
	}
	long := start("long")
	long.Start.Input, long.Start.At = make([]byte, 5000), 1<<60
	long.Start.Items = []store.Item{{Kind: store.ItemMessage, Name: "first", ID: "i"}}
	commands := []store.Command{start("short"), long, send("short", "m", []byte{}), send("short", "m", nil),
		send("nobody", "m", nil)}
	for _, commit := range []bool{false, true} {
		answers := inTx(commit, commands...)
		for i, want := range []store.Outcome{store.Applied, store.Applied, store.Applied, store.Applied, store.NotFound} {
			if answers[i].Outcome != want {
				t.Errorf("command %d: expected outcome %d, got %d", i, want, answers[i].Outcome)
			}
		}
		page, err := s.List(t.Context(), store.Filter{Values: true})
		if err != nil {
			t.Fatal(err)
		}
		if !commit {
			if len(page.Runs) != 0 {
				t.Errorf("expected nothing after the rollback, got %d runs", len(page.Runs))
			}
			continue
		}
		if len(page.Runs) != 2 || len(page.Runs[0].Input) != 5000 || page.Runs[0].WakeAt != 1<<60 ||
			page.Runs[1].Input != nil {
			t.Errorf("expected both runs with their inputs, got %+v", page.Runs)
		}
		items, err := s.Inbox(t.Context(), answers[0].Run.No)
		if err != nil || len(items) != 1 || items[0].Value == nil || len(items[0].Value) != 0 {
			t.Errorf("expected one message with an empty value, got %+v, %v", items, err)
		}
	}
	var mine int
	if err := db.QueryRow("SELECT count(*) FROM runs").Scan(&mine); err != nil || mine != 2 {
		t.Errorf("expected the application's row once, got %d, %v", mine, err)
	}
	if _, err := s.Changed(t.Context()); err != nil { // the application is another to the store
		t.Error(err)
	}
}

func TestTransactionOnAnotherFileIsRefused(t *testing.T) {
	s, other := open(t, testPath(t)), open(t, testPath(t))
	for _, path := range []string{other.Path(), foreign(t)} {
		tx, err := application(t, path).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.ApplyTx(t.Context(), tx, []store.Command{start("a")})
		wantErr(t, err, store.ErrInvalid)
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

func TestFailedCommandsLeaveTheTransactionUsable(t *testing.T) {
	s := open(t, testPath(t))
	db := application(t, s.Path())
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.ApplyTx(t.Context(), tx, []store.Command{start("a"), {}})
	wantErr(t, err, store.ErrInvalid)
	if _, err := tx.Exec("ALTER TABLE stet_inbox RENAME TO gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ApplyTx(t.Context(), tx, []store.Command{start("a"), send("a", "m", nil)}); err == nil {
		t.Error("expected an error of the missing table")
	}
	if _, err := tx.Exec("ALTER TABLE gone RENAME TO stet_inbox"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ApplyTx(t.Context(), tx, []store.Command{start("b")}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	page, err := s.List(t.Context(), store.Filter{})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != "b" {
		t.Errorf("expected only the second run, got %+v, %v", page.Runs, err)
	}
}
