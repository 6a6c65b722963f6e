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

// Raw is the driver's speed without an engine, in rows per second, beside a workload. A row is a run ID of 16 random
// bytes, a path of about 20 bytes, a value of 100 bytes and three integers; its key is (run, path), and ten consecutive
// rows belong to one run.
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

// rawDriver writes rows without an engine.
type rawDriver interface {
	// commitRows writes n rows in one commit.
	commitRows(n int) error
	// sizeValues makes the values of the next rows of so many bytes. It begins with valueSize.
	sizeValues(size int)
	close() error
}

// openRaw makes a table beside the store's, with the store's durability. close
// removes it.
func openRaw(ctx context.Context, cfg *Config) (rawDriver, error) {
	switch {
	case cfg.Postgres != "":
		return openRawPostgres(ctx, cfg.Postgres)
	case cfg.Redis != "":
		return openRawRedis(ctx, cfg.Redis)
	}
	return openRawTable(cfg.File)
}

// rawRows makes the rows.
type rawRows struct {
	run   [16]byte
	rows  int
	value []byte
}

func newRawRows() rawRows {
	var r rawRows
	r.sizeValues(valueSize)
	return r
}

func (r *rawRows) sizeValues(size int) {
	r.value = make([]byte, size)
	rand.Read(r.value)
}

// next makes the next row and returns its path; the run is in r.
func (r *rawRows) next() string {
	if r.rows%rowsPerRun == 0 {
		rand.Read(r.run[:])
	}
	path := fmt.Sprintf("checkout/step-%06d", r.rows%rowsPerRun)
	r.rows++
	return path
}

// measureRaw measures the three sizes of commits.
func measureRaw(ctx context.Context, d rawDriver) (*Raw, error) {
	raw := &Raw{}
	for _, m := range []struct {
		batch int
		rate  *float64
	}{{1, &raw.Rows1}, {100, &raw.Rows100}, {1000, &raw.Rows1000}} {
		rate, err := rawRound(ctx, d, m.batch)
		if err != nil {
			return nil, err
		}
		*m.rate = rate
	}
	return raw, nil
}

// rawRound commits batches of rows for about rawTime and returns rows per second.
func rawRound(ctx context.Context, d rawDriver, batch int) (float64, error) {
	begun, written := time.Now(), 0
	for time.Since(begun) < rawTime {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := d.commitRows(batch); err != nil {
			return 0, err
		}
		written += batch
	}
	return float64(written) / time.Since(begun).Seconds(), nil
}

// rawTable is the table in SQLite.
type rawTable struct {
	rawRows
	dir                   string // holds the file alone
	conn                  *sqlite3.Conn
	begin, insert, commit *sqlite3.Stmt
}

// openRawTable makes a table in a new file beside the store's, with the store's
// durability. close removes it.
func openRawTable(storeFile string) (rawDriver, error) {
	dir, err := os.MkdirTemp(filepath.Dir(storeFile), "stet-bench-raw-")
	if err != nil {
		return nil, err
	}
	t := &rawTable{dir: dir, rawRows: newRawRows()}
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

func (t *rawTable) commitRows(n int) error {
	if err := t.begin.Exec(); err != nil {
		return err
	}
	for range n {
		if err := t.insertRow(t.next()); err != nil {
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
