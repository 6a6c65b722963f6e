package sqlite

import (
	"context"
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
		{"a hole", "UPDATE stet_migrations SET number=2", "lacks migration 1"},
		{"newer", "INSERT INTO stet_migrations VALUES (2, 'new', '00', 2, 1)", "needs a binary that knows schema 2; this one knows 1"},
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
	tamper(t, path, "INSERT INTO stet_migrations VALUES (2, 'additive', '00', 1, 1)")
	s := open(t, path)
	apply(t, s, start("a"))
	d, err := s.Describe(t.Context())
	if err != nil || d.Schema != 2 {
		t.Errorf("expected schema 2, got %d, %v", d.Schema, err)
	}
}

func TestSchemaOfAFile(t *testing.T) {
	path := testPath(t)
	for _, want := range []SchemaStatus{{Store: 0, Latest: 1}, {Store: 1, Latest: 1}} {
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
