package sqlite

import (
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// large makes a table that needs more memory to be sorted than the writing connection may use from now on.
func large(t *testing.T) *Store {
	t.Helper()
	s := open(t, testPath(t), AllowLoss())
	if err := s.write.c.Exec(`CREATE TABLE large (a INTEGER PRIMARY KEY, b TEXT);
		INSERT INTO large (b) SELECT hex(randomblob(200)) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL
			SELECT i+1 FROM n WHERE i<60000) SELECT i FROM n)`); err != nil {
		t.Fatal(err)
	}
	s.write.c.HardHeapLimit(16 << 20)
	return s
}

const indexLarge = "CREATE INDEX large_b ON large (b)"

// TestMigrationsSortOnDisk: a migration that builds an index over a large table keeps little of it in memory.
func TestMigrationsSortOnDisk(t *testing.T) {
	s := large(t)
	c := s.write.c
	list, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	known, longer := len(list), append(list, sqlstore.Migration{Name: "an index", SQL: indexLarge, Sum: "00"})
	if err := s.advance(t.Context(), longer); err != nil {
		t.Fatal(err)
	}
	if s.schema != known+1 || s.write.c != c {
		t.Errorf("the schema is %d, expected %d", s.schema, known+1)
	}
	var mode, rows int64
	if _, err := s.write.c.row("PRAGMA temp_store", nil, &mode); err != nil || mode != 2 {
		t.Errorf("after the migration temp_store is %d, expected 2 (MEMORY): %v", mode, err)
	}
	if _, err := s.write.c.row("SELECT count(*) FROM large INDEXED BY large_b WHERE b>''", nil, &rows); err != nil ||
		rows != 60_000 {
		t.Errorf("the index has %d rows: %v", rows, err)
	}
}

// TestMemoryIsUsedUp: an act that needs more memory than the connection has fails, and leaves nothing. The store goes
// on.
func TestMemoryIsUsedUp(t *testing.T) {
	s := large(t)
	err := s.write.do(t.Context(), "index", func(c *conn, _ store.Time) error { return c.Exec(indexLarge) })
	wantErr(t, err, store.ErrUnavailable)
	wantErr(t, err, sqlite3.NOMEM)
	apply(t, s, start("run-1"))
	var n int64
	if _, err := s.write.c.row("SELECT count(*) FROM sqlite_schema WHERE name='large_b'", nil, &n); err != nil || n != 0 {
		t.Errorf("%d indexes of an act that has failed: %v", n, err)
	}
	checkInvariants(t, s)
}
