package postgres

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/internal/words"
)

// querier executes statements in a transaction: ours, or one of a caller's.
type querier interface {
	exec(sql string, args ...any) (changes int64, err error)
	row(sql string, args []any, dest ...any) (ok bool, err error)
}

// tx is a transaction of ours. It is used by one goroutine.
type tx struct {
	ctx  context.Context // of the one act
	s    *Store
	conn *pgx.Conn
}

func (t *tx) exec(sql string, args ...any) (int64, error) {
	tag, err := t.conn.Exec(t.ctx, t.s.sql(sql), plain(args)...)
	return tag.RowsAffected(), err
}

func (t *tx) row(sql string, args []any, dest ...any) (bool, error) {
	err := t.conn.QueryRow(t.ctx, t.s.sql(sql), plain(args)...).Scan(dest...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// each calls fn for each row; fn must not execute statements.
func (t *tx) each(sql string, args []any, fn func(scan func(dest ...any) error) error) error {
	rows, err := t.conn.Query(t.ctx, t.s.sql(sql), plain(args)...)
	if err != nil {
		return err
	}
	return eachRow(rows, fn)
}

// eachSteady is each for a statement of the daily work, in a transaction or outside.
func (t *tx) eachSteady(sql string, args []any, fn func(scan func(dest ...any) error) error) error {
	if !t.s.pooled {
		return t.each(sql, args, fn)
	}
	batch := &pgx.Batch{}
	queueSteady(batch, t.s.pooled)
	batch.Queue(t.s.sql(sql), plain(args)...)
	results := t.conn.SendBatch(t.ctx, batch)
	err := readSteady(results, t.s.pooled)
	if err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			err = eachRow(rows, fn)
		}
	}
	return errors.Join(err, results.Close())
}

// eachFree is each outside of a transaction, for a query of many forms over any number
// of rows: the server plans it as it likes (see steady).
func (t *tx) eachFree(sql string, args []any, fn func(scan func(dest ...any) error) error) error {
	return t.eachSet(freeText, sql, args, fn)
}

// eachListed is each outside of a transaction, for a query of many forms that has an index for each.
func (t *tx) eachListed(sql string, args []any, fn func(scan func(dest ...any) error) error) error {
	return t.eachSet(listedText, sql, args, fn)
}

// eachOrdered is each outside of a transaction, for a query that names the orders of the indexes that it reads.
func (t *tx) eachOrdered(sql string, args []any, fn func(scan func(dest ...any) error) error) error {
	return t.eachSet(orderedText, sql, args, fn)
}

func (t *tx) eachSet(settings, sql string, args []any, fn func(scan func(dest ...any) error) error) error {
	batch := &pgx.Batch{}
	batch.Queue(settings)
	batch.Queue(t.s.sql(sql), plain(args)...)
	results := t.conn.SendBatch(t.ctx, batch)
	_, err := results.Exec()
	if err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			err = eachRow(rows, fn)
		}
	}
	return errors.Join(err, results.Close())
}

// eachRow calls fn for each row and closes the rows.
func eachRow(rows pgx.Rows, fn func(scan func(dest ...any) error) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// plain converts arguments to types that the driver knows without the types of the
// parameters: defined integers become int64, nil bytes NULL.
func plain(args []any) []any {
	for i, arg := range args {
		switch a := arg.(type) {
		case nil, int64, string, bool, []int64, []string, [][]byte, []bool:
		case []byte:
			if a == nil {
				args[i] = nil
			}
		case int:
			args[i] = int64(a)
		case sqlstore.Bytes:
			args[i] = []byte(a)
		default:
			switch v := reflect.ValueOf(arg); v.Kind() {
			case reflect.Int, reflect.Int64, reflect.Int32:
				args[i] = v.Int()
			case reflect.Uint8:
				args[i] = int64(v.Uint())
			case reflect.String:
				args[i] = v.String()
			}
		}
	}
	return args
}

// sql returns a statement with numbers in place of words, and with the store's schema in
// place of "stet.".
func (s *Store) sql(text string) string {
	if known, ok := s.texts.Load(text); ok {
		return known.(string)
	}
	named := words.SQL(text)
	if s.schema != defaultSchema {
		named = strings.ReplaceAll(named, "stet.", pgx.Identifier{s.schema}.Sanitize()+".")
	}
	if s.textCount.Add(1) < maxTexts {
		s.texts.Store(text, named)
	}
	return named
}

// maxTexts bounds the texts that sql remembers: listings make many.
const maxTexts = 2000

// patience bounds for transactions of ours.
const (
	// idleLimit is how long the server lets a transaction of ours stand still, for
	// example because this process was stopped or its network is cut, before it takes
	// it back. It holds locks on leases, so none is taken over before that; it is as
	// long as a takeover may be late.
	idleLimit = time.Second
	// lockLimit is how long an act waits for a lock, unless the act has another limit.
	lockLimit = 10 * time.Second
	// busyLimit is how long a group commit waits for a lock.
	busyLimit = 20 * time.Millisecond
	// tries is how often an act is tried that a deadlock has taken back.
	tries = 10
)

// write calls fn in a transaction at the store's time, and again if the server
// asks for that. Acts that are kept apart within the process hold s.writing.
func (s *Store) write(ctx context.Context, act string, locks time.Duration,
	fn func(t *tx, now store.Time) error) error {
	return s.writeAfter(ctx, act, locks, nil, fn)
}

// first are statements that a transaction begins with, in the round trip in which it
// begins.
type first interface {
	queue(s *Store, batch *pgx.Batch)
	read(results pgx.BatchResults) error
}

// writeAfter is write for a transaction that begins with some statements, or none.
func (s *Store) writeAfter(ctx context.Context, act string, locks time.Duration, first first,
	fn func(t *tx, now store.Time) error) error {
	var err error
	cut := false
	for range tries {
		var before bool
		before, err = s.tryWrite(ctx, act, locks, first, fn)
		switch {
		case repeatable(err):
		case before && !cut && errors.Is(err, store.ErrUnavailable) && ctx.Err() == nil:
			cut = true // once: the server was restarted, or has cut off a transaction that stood still
		default:
			return err
		}
	}
	return err
}

// repeatable reports whether an error says that the transaction was taken back
// and may succeed when it is tried again.
func repeatable(err error) bool {
	code := sqlState(err)
	return code == "40001" || code == "40P01"
}

// tryWrite calls fn once. before says that an error came before the commit was
// asked for, from a connection that is gone.
func (s *Store) tryWrite(ctx context.Context, act string, locks time.Duration, first first,
	fn func(t *tx, now store.Time) error) (before bool, err error) {
	if s.closed.Load() {
		return false, s.gone()
	}
	conn, err := connection(ctx, s)
	if err != nil {
		return false, s.classify(ctx, act, err)
	}
	defer conn.Release()
	t := &tx{ctx: ctx, s: s, conn: conn.Conn()}
	now, err := t.begin(locks, first)
	if err != nil {
		t.discard(err)
		return t.conn.IsClosed(), s.classify(ctx, act, err)
	}
	if err = fn(t, now); err != nil {
		t.rollback()
		t.discard(err)
		return t.conn.IsClosed(), s.classify(ctx, act, err)
	}
	return false, s.end(t, act, conn)
}

// end commits a transaction.
func (s *Store) end(t *tx, act string, conn *pgxpool.Conn) error {
	warned := s.warnings(conn).Load()
	_, err := t.exec("COMMIT")
	switch {
	case err == nil && s.warnings(conn).Load() == warned:
		return nil
	case err == nil:
		return fmt.Errorf("%s: %w: %w: the wait for the standby was cut short", act, store.ErrUnavailable, store.ErrUnknown)
	case definite(err):
		t.rollback()
		return s.classify(t.ctx, act, err)
	}
	return fmt.Errorf("%w: %w", s.classify(t.ctx, act, err), store.ErrUnknown)
}

// begin begins the transaction in one round trip, reads the time, and executes first.
func (t *tx) begin(locks time.Duration, first first) (store.Time, error) {
	floor, test := t.s.times()
	batch := &pgx.Batch{}
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	queueSteady(batch, t.s.pooled)
	batch.Queue("SELECT "+nowExpr+`, set_config('lock_timeout', $3::text, true),
		set_config('idle_in_transaction_session_timeout', $4::text, true)`,
		floor, test, fmt.Sprintf("%dms", locks.Milliseconds()), fmt.Sprintf("%dms", t.s.cfg.idle.Milliseconds()))
	if first != nil {
		first.queue(t.s, batch)
	}
	results := t.conn.SendBatch(t.ctx, batch)
	_, err := results.Exec()
	if err == nil {
		err = readSteady(results, t.s.pooled)
	}
	var now int64
	var ignored string
	if err == nil {
		err = results.QueryRow().Scan(&now, &ignored, &ignored)
	}
	if err == nil && first != nil {
		err = first.read(results)
	}
	if err = errors.Join(err, results.Close()); err != nil {
		t.rollback()
		return 0, err
	}
	t.s.observe(store.Time(now))
	return store.Time(now), nil
}

// nowExpr is the store's time. Parameters: the time that it is not before, and the time of
// a test or NULL.
const nowExpr = `greatest($1::bigint, coalesce($2::bigint, (extract(epoch FROM clock_timestamp())*1000000)::bigint))`

// rollback ends the transaction, or with it the connection.
func (t *tx) rollback() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), idleLimit)
	defer cancel()
	if _, err := t.conn.Exec(ctx, "ROLLBACK"); err != nil {
		_ = t.conn.Close(ctx) // the server takes the transaction back
	}
}

// read calls fn in a read-only transaction that sees one moment.
func (s *Store) read(ctx context.Context, act string, fn func(t *tx) error) error {
	if s.closed.Load() {
		return s.gone()
	}
	conn, err := connection(ctx, s)
	if err != nil {
		return s.classify(ctx, act, err)
	}
	defer conn.Release()
	t := &tx{ctx: ctx, s: s, conn: conn.Conn()}
	if _, err := t.conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return s.classify(ctx, act, err)
	}
	if err := fn(t); err != nil {
		t.rollback()
		t.discard(err)
		return s.classify(ctx, act, err)
	}
	if _, err := t.conn.Exec(ctx, "COMMIT"); err != nil {
		return s.classify(ctx, act, err)
	}
	return nil
}

// single calls fn with a connection outside of a transaction, for acts of one statement.
func (s *Store) single(ctx context.Context, act string, fn func(t *tx) error) error {
	if s.closed.Load() {
		return s.gone()
	}
	conn, err := connection(ctx, s)
	if err != nil {
		return s.classify(ctx, act, err)
	}
	defer conn.Release()
	t := &tx{ctx: ctx, s: s, conn: conn.Conn()}
	if err = fn(t); err != nil {
		t.discard(err)
	}
	return s.classify(ctx, act, err)
}

// errBusy says that another transaction holds a lock for too long.
var errBusy = errors.New("another transaction holds a row that is needed")

// busy makes errBusy of a lock that was not to be had in time, and says which row that is. The
// rows of boots, batches and leases are changed by stet alone.
func busy(err error) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != "55P03" {
		return err
	}
	switch {
	case strings.Contains(e.Where, `relation "boots"`), strings.Contains(e.Where, `relation "batches"`):
		return fmt.Errorf("%w: that of a node: another one takes its leases, or its last commit has not ended: %w", errBusy,
			err)
	case strings.Contains(e.Where, `relation "leases"`):
		return fmt.Errorf("%w: a lease, which another node takes: %w", errBusy, err)
	case e.Where != "":
		return fmt.Errorf("%w: an application's transaction, %s: %w", errBusy, e.Where, err)
	}
	return fmt.Errorf("%w: %w", errBusy, err)
}

// warnings counts the warnings that the server has sent on a connection. One that
// comes with a commit says that the wait for a synchronous standby was cut short.
func (s *Store) warnings(c *pgxpool.Conn) *atomic.Int64 {
	w, ok := c.Conn().PgConn().CustomData()[warningsKey].(*atomic.Int64)
	if !ok {
		return &atomic.Int64{}
	}
	return w
}

const warningsKey = "stet.warnings"
