package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// Raw is what the driver can do without an engine, in rows per second, beside a
// workload. A row is a run ID of 16 random bytes, a path of about 20 bytes, a
// value of 100 bytes and three integers; its key is (run, path), and ten
// consecutive rows belong to one run.
type Raw struct {
	Workload string  `json:"workload"`
	Rows1    float64 `json:"rows_per_second_1"`    // one row per commit
	Rows100  float64 `json:"rows_per_second_100"`  // 100 rows per commit
	Rows1000 float64 `json:"rows_per_second_1000"` // 1,000 rows per commit
}

const (
	rawTime    = 200 * time.Millisecond // for one size of commits, about
	rowsPerRun = 10
)

// rawTable is the table that is written without an engine.
type rawTable struct {
	dir                   string // holds the file alone
	conn                  *sqlite3.Conn
	begin, insert, commit *sqlite3.Stmt
	run                   [16]byte
	rows                  int
	value                 []byte
}

// openRawTable makes a table in a new file beside the store's, with the store's
// durability. close removes it.
func openRawTable(storeFile string) (*rawTable, error) {
	dir, err := os.MkdirTemp(filepath.Dir(storeFile), "stet-bench-raw-")
	if err != nil {
		return nil, err
	}
	t := &rawTable{dir: dir, value: make([]byte, 100)}
	rand.Read(t.value)
	if t.conn, err = sqlite3.Open(filepath.Join(dir, "raw.db")); err == nil {
		err = t.conn.Exec(`PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;
			CREATE TABLE rows (run BLOB NOT NULL, path TEXT NOT NULL, value BLOB NOT NULL,
				a INTEGER NOT NULL, b INTEGER NOT NULL, c INTEGER NOT NULL, PRIMARY KEY (run, path)) WITHOUT ROWID`)
	}
	for _, s := range []struct {
		stmt **sqlite3.Stmt
		sql  string
	}{{&t.begin, "BEGIN IMMEDIATE"}, {&t.insert, "INSERT INTO rows VALUES (?,?,?,?,?,?)"}, {&t.commit, "COMMIT"}} {
		if err == nil {
			*s.stmt, _, err = t.conn.PrepareFlags(s.sql, sqlite3.PREPARE_PERSISTENT)
		}
	}
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *rawTable) close() error {
	return errors.Join(t.begin.Close(), t.insert.Close(), t.commit.Close(), t.conn.Close(), os.RemoveAll(t.dir))
}

// measure measures the three sizes of commits.
func (t *rawTable) measure(ctx context.Context) (*Raw, error) {
	raw := &Raw{}
	for _, m := range []struct {
		batch int
		rate  *float64
	}{{1, &raw.Rows1}, {100, &raw.Rows100}, {1000, &raw.Rows1000}} {
		rate, err := t.round(ctx, m.batch)
		if err != nil {
			return nil, err
		}
		*m.rate = rate
	}
	return raw, nil
}

// round commits batches of rows for about rawTime and returns rows per second.
func (t *rawTable) round(ctx context.Context, batch int) (float64, error) {
	begun, written := time.Now(), 0
	for time.Since(begun) < rawTime {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := t.commitRows(batch); err != nil {
			return 0, err
		}
		written += batch
	}
	return float64(written) / time.Since(begun).Seconds(), nil
}

func (t *rawTable) commitRows(n int) error {
	if err := t.begin.Exec(); err != nil {
		return err
	}
	for range n {
		if t.rows%rowsPerRun == 0 {
			rand.Read(t.run[:])
		}
		path := fmt.Sprintf("checkout/step-%06d", t.rows%rowsPerRun)
		t.rows++
		if err := t.insertRow(path); err != nil {
			return err
		}
	}
	return t.commit.Exec()
}

func (t *rawTable) insertRow(path string) error {
	return errors.Join(
		t.insert.BindBlob(1, t.run[:]), t.insert.BindText(2, path), t.insert.BindBlob(3, t.value),
		t.insert.BindInt64(4, int64(t.rows)), t.insert.BindInt64(5, 1), t.insert.BindInt64(6, int64(t.rows)<<20),
		t.insert.Exec())
}
