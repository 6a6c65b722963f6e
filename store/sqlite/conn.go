package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"syscall"
	"time"
	"unsafe"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/internal/words"
)

// conn is a connection with its prepared statements. It is used by one
// goroutine at a time.
type conn struct {
	*sqlite3.Conn
	stmts map[string]*sqlite3.Stmt
	// patience is how long the connection waits for a lock of another.
	patience time.Duration
	unsynced bool      // its commits do not wait for the disk
	begun    time.Time // a read transaction
	copying  *copying  // a backup under way; nil: none
	log      *logFile  // of its commits; nil: not known yet, or of another kind
}

// lockWait is how long a connection waits for another process.
const lockWait = 30 * time.Second

func openConn(ctx context.Context, cfg *config, flags sqlite3.OpenFlag) (*conn, error) {
	name := "file:" + url.PathEscape(cfg.path) + "?vfs=" + url.QueryEscape(gatheringOn(cfg.vfs))
	c, err := sqlite3.OpenFlags(name, flags|sqlite3.OPEN_URI)
	if err != nil {
		return nil, err
	}
	out := &conn{Conn: c, stmts: map[string]*sqlite3.Stmt{}, patience: lockWait, unsynced: cfg.normal}
	var since time.Time
	err = c.BusyHandler(func(ctx context.Context, count int) bool {
		if count == 0 {
			since = time.Now()
		}
		if ctx.Err() != nil || time.Since(since) > out.patience {
			return false
		}
		time.Sleep(100*time.Microsecond + rand.N(300*time.Microsecond))
		return true
	})
	if err != nil {
		return nil, errors.Join(err, out.close())
	}
	c.SetInterrupt(ctx)
	defer c.SetInterrupt(context.Background())
	sync := "FULL"
	if cfg.normal {
		sync = "NORMAL"
	}
	// A cache of 4 MiB: to put pages of an index in order SQLite numbers one beyond the end of
	// the file for a moment, and then looks through all of the cache at the commit. That of
	// 16 MiB costs a tenth of the throughput, and the system holds the file's pages as well.
	if err := c.Exec("PRAGMA foreign_keys=OFF; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-4096; " +
		"PRAGMA wal_autocheckpoint=0; " +
		" PRAGMA fullfsync=1; PRAGMA checkpoint_fullfsync=1; PRAGMA synchronous=" + sync); err != nil {
		return nil, errors.Join(err, out.close())
	}
	// Without this a statement that compares a column of a partial index with a parameter
	// is planned again whenever another value is bound to it.
	if _, err := c.Config(sqlite3.DBCONFIG_ENABLE_QPSG, true); err != nil {
		return nil, errors.Join(err, out.close())
	}
	return out, nil
}

// sync sets whether the next commits wait for the disk.
func (c *conn) sync(wait bool) error {
	level := "NORMAL"
	if wait {
		level = "FULL"
	}
	if err := c.Exec("PRAGMA synchronous=" + level); err != nil {
		return err
	}
	c.unsynced = !wait
	return nil
}

// patiently repeats an act for which SQLite does not call the busy handler, because waiting
// inside it could be in vain: others may wait for the lock that this connection holds.
func (c *conn) patiently(act func() error) error {
	for begun := time.Now(); ; time.Sleep(time.Millisecond + rand.N(time.Millisecond)) {
		err := act()
		if !errors.Is(err, sqlite3.BUSY) || time.Since(begun) > c.patience {
			return err
		}
	}
}

func (c *conn) close() error {
	for _, s := range c.stmts {
		_ = s.Close() // reports the last error of the statement, which its caller has
	}
	c.stmts = nil
	if c.copying != nil {
		_ = c.copying.close() // its owner finds the connection gone
	}
	return c.Conn.Close()
}

// pagerVersion returns a number that changes with every transaction that this connection
// commits or takes back, and whenever it sees one of another connection.
func (c *conn) pagerVersion() uint32 {
	v, err := c.FileControl("main", sqlite3.FCNTL_DATA_VERSION)
	if err != nil {
		return 0 // no version that was seen before
	}
	return v.(uint32)
}

// stmt returns the prepared statement of the text, in which words stand for numbers.
func (c *conn) stmt(sql string) (*sqlite3.Stmt, error) {
	if s := c.stmts[sql]; s != nil {
		return s, nil
	}
	s, _, err := c.PrepareFlags(words.SQL(sql), sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, err
	}
	c.stmts[sql] = s
	return s, nil
}

// bind binds arguments: int64, int, string, sqlstore.Bytes, []byte (nil: NULL), bool,
// store.Time, nil.
func bind(s *sqlite3.Stmt, args []any) error {
	for i, arg := range args {
		var err error
		switch v := arg.(type) {
		case int64:
			err = s.BindInt64(i+1, v)
		case int:
			err = s.BindInt64(i+1, int64(v))
		case store.Time:
			err = s.BindInt64(i+1, int64(v))
		case bool:
			err = s.BindBool(i+1, v)
		case string:
			err = s.BindText(i+1, v)
		case sqlstore.Bytes:
			err = s.BindText(i+1, string(v))
		case []byte:
			err = bindValue(s, i+1, v)
		case nil:
			err = s.BindNull(i + 1)
		default:
			err = fmt.Errorf("cannot bind a %T", arg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func bindValue(s *sqlite3.Stmt, param int, v []byte) error {
	if v == nil {
		return s.BindNull(param)
	}
	return s.BindBlob(param, v)
}

// bytesOf returns the bytes of s without a copy. They are only read.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// value returns a copy of a column; NULL gives nil.
func value(s *sqlite3.Stmt, col int) []byte {
	if s.ColumnType(col) == sqlite3.NULL {
		return nil
	}
	return append([]byte{}, s.ColumnRawBlob(col)...)
}

// exec executes a statement that returns no rows and returns how many rows it changed.
func (c *conn) exec(sql string, args ...any) (int64, error) {
	s, err := c.stmt(sql)
	if err != nil {
		return 0, err
	}
	if err := bind(s, args); err != nil {
		return 0, err
	}
	if err := s.Exec(); err != nil {
		return 0, err
	}
	return c.Changes(), nil
}

// each calls fn for every row.
func (c *conn) each(sql string, args []any, fn func(*sqlite3.Stmt) error) error {
	s, err := c.stmt(sql)
	if err != nil {
		return err
	}
	if err := bind(s, args); err != nil {
		return err
	}
	for s.Step() {
		if err := fn(s); err != nil {
			return errors.Join(err, s.Reset())
		}
	}
	if err := s.Err(); err != nil {
		_ = s.Reset() // the same error
		return err
	}
	return s.Reset()
}

// row reads one row into dest, see scanColumns. It reports false if there is none.
func (c *conn) row(sql string, args []any, dest ...any) (found bool, err error) {
	err = c.each(sql, args, func(s *sqlite3.Stmt) error {
		found = true
		return scanColumns(s, dest)
	})
	return found, err
}

// scanColumns reads the columns of a row into dest: *int64, *string, *[]byte, *bool.
func scanColumns(s *sqlite3.Stmt, dest []any) error {
	for i, d := range dest {
		switch p := d.(type) {
		case *int64:
			*p = s.ColumnInt64(i)
		case *string:
			*p = s.ColumnText(i)
		case *[]byte:
			*p = value(s, i)
		case *bool:
			*p = s.ColumnBool(i)
		default:
			return fmt.Errorf("cannot read into a %T", d)
		}
	}
	return nil
}

// classifyWithin is classify for an act that is cut short when ctx ends: the error is then
// that of ctx.
func classifyWithin(ctx context.Context, act string, err error) error {
	if ctx.Err() != nil && (errors.Is(err, sqlite3.INTERRUPT) || errors.Is(err, sqlite3.BUSY)) {
		return fmt.Errorf("%s: %w", act, ctx.Err())
	}
	return classify(act, err)
}

// freeRoom is what to do when the disk is full.
const freeRoom = "; free some room on the disk, and it goes on"

// noRoom reports whether the disk is full. The driver gives SQLite another code for a write that finds no room.
func noRoom(err error) bool { return errors.Is(err, sqlite3.FULL) || errors.Is(err, syscall.ENOSPC) }

// classify gives an error of SQLite the contract's class.
func classify(act string, err error) error {
	if err == nil {
		return nil
	}
	wrap := func(class error, help string) error {
		return fmt.Errorf("%s: %w: %w%s", act, class, err, help)
	}
	switch {
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrClosed),
		errors.Is(err, store.ErrBadCursor), errors.Is(err, store.ErrSchema), errors.Is(err, store.ErrDamaged):
		return err
	case noRoom(err):
		return wrap(store.ErrUnavailable, freeRoom)
	case errors.Is(err, sqlite3.BUSY), errors.Is(err, sqlite3.LOCKED):
		return wrap(store.ErrUnavailable, "; another process has kept the write lock for "+lockWait.String())
	case errors.Is(err, sqlite3.NOTADB):
		return wrap(store.ErrDamaged, "; expected an SQLite file")
	case errors.Is(err, sqlite3.TOOBIG):
		return wrap(store.ErrInvalid, "; expected less than 1 GB")
	case errors.Is(err, sqlite3.CORRUPT), errors.Is(err, sqlite3.IOERR_DATA), errors.Is(err, sqlite3.IOERR_CORRUPTFS):
		return wrap(store.ErrDamaged, "; run stet doctor, and restore a backup")
	case errors.Is(err, sqlite3.READONLY), errors.Is(err, sqlite3.PERM), errors.Is(err, sqlite3.AUTH):
		return wrap(store.ErrUnavailable, "; the process may not write the file or its folder")
	case errors.Is(err, sqlite3.IOERR), errors.Is(err, sqlite3.CANTOPEN), errors.Is(err, sqlite3.NOMEM),
		errors.Is(err, sqlite3.PROTOCOL):
		return wrap(store.ErrUnavailable, "")
	}
	return fmt.Errorf("%s: %w", act, err)
}
