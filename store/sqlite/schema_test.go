package sqlite

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// tamper executes SQL on a file that no Store has open.
func tamper(t testing.TB, path, sql string) {
	t.Helper()
	c, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Exec(sql); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLedgerIsChecked(t *testing.T) {
	for _, c := range []struct{ name, sql, says string }{
		{"another text", "UPDATE stet_migrations SET sum='00'", "another text"},
		{"a hole", "UPDATE stet_migrations SET number=number+1000", "lacks migration 1"},
		{"newer", fmt.Sprintf("INSERT INTO stet_migrations VALUES (%[1]d, 'new', '00', %[1]d, 1)", latest(t)+1),
			fmt.Sprintf("needs a binary that knows schema %d; this one knows %d", latest(t)+1, latest(t))},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := testPath(t)
			if err := open(t, path).Close(); err != nil {
				t.Fatal(err)
			}
			tamper(t, path, c.sql)
			_, err := Open(context.Background(), path)
			if err == nil {
				t.Fatal("expected an error")
			}
			wantErr(t, err, store.ErrSchema)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("expected the error to say %q, got %v", c.says, err)
			}
			if _, err := ReadSchema(t.Context(), path); err == nil {
				t.Error("expected Schema to say it too")
			}
		})
	}
}

func TestNewerSchemaThatKeepsOldBinariesIsUsed(t *testing.T) {
	path := testPath(t)
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	next := latest(t) + 1
	tamper(t, path, fmt.Sprintf("INSERT INTO stet_migrations VALUES (%d, 'additive', '00', 1, 1)", next))
	s := open(t, path)
	apply(t, s, start("a"))
	d, err := s.Describe(t.Context())
	if err != nil || d.Schema != next {
		t.Errorf("expected schema %d, got %d, %v", next, d.Schema, err)
	}
}

// latest returns the number of the last migration.
func latest(t *testing.T) int {
	t.Helper()
	list, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestSchemaOfAFile(t *testing.T) {
	path := testPath(t)
	n := latest(t)
	for _, want := range []SchemaStatus{{Store: 0, Latest: n}, {Store: n, Latest: n}} {
		if got, err := ReadSchema(t.Context(), path); err != nil || got != want {
			t.Errorf("expected %+v, got %+v, %v", want, got, err)
		}
		if err := open(t, path).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := ReadSchema(t.Context(), foreign(t)); err != nil || got.Store != 0 {
		t.Errorf("expected no schema in a stranger's file, got %+v, %v", got, err)
	}
}
