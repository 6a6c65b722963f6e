package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

// How a database of a store moves to another server, while its processes work. It is moved as a whole: numbers, posts
// and what has arrived of them stay what they are. Its states are these; each arrow is one transaction:
//
//		here ──fence──▶ fenced ──copy──▶ there ──forward──▶ forwarded ──clear──▶ cleared
//		       ◀─undo──
//
//	  - here: the schema S has the tables.
//	  - fenced: S is named S_moving, and its meta has the move ('moving'). The transaction that renames it has locked all
//	    tables, so nothing is under way, and no statement finds them any more: every process, whatever it knows, waits as
//	    for a server that is away.
//	  - there: the other server has all, under its final name, with the move in its meta ('came'). The copy is one
//	    transaction, so there is no half one.
//	  - forwarded: the meta of S_moving says where ('moved'). Processes that do not find S look there, and go on at the
//	    new address; they may have it in their settings later.
//	  - cleared: of S_moving the meta alone is left.
//
// Move goes on from whichever state it finds, so one that was killed is continued by the same call. A copy that fails
// is undone, but only by a process that knows that no other one can have completed it: its own transaction has made the
// schema, and was not committed.
const (
	movingKey = "moving"
	cameKey   = "came"
	movedKey  = "moved"
	// formerSuffix is put behind the name of a schema that is being moved, or was.
	formerSuffix = "_moving"
)

// moving is what the meta of a fenced schema says.
type moving struct {
	ID string // of this move
	To string // the address, without password
}

const (
	// fenceLimit is how long Move waits for transactions that are open.
	fenceLimit = time.Minute
	// fencePause is how long it waits between two tries, so that those wait little which wait behind it.
	fencePause = 400 * time.Millisecond
)

// mover carries out one call of Move.
type mover struct {
	ctx      context.Context
	from, to *moveEnd
	is       moving
	step     func(statement string) error // in tests: called after each statement
	cut      bool                         // step has failed, as if the process had been killed
}

// moveEnd is one of the two servers.
type moveEnd struct {
	*Store // not open
	dsn    string
	conn   *pgx.Conn
}

func newMoveEnd(ctx context.Context, dsn string, opts []Option) (*moveEnd, error) {
	s, pc, err := prepare(dsn, opts)
	if err != nil {
		return nil, err
	}
	if len(s.schema)+len(formerSuffix) > 63 {
		return nil, fmt.Errorf("%w: expected a schema with a name of at most %d letters, found %s", store.ErrInvalid,
			63-len(formerSuffix), s.schema)
	}
	pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := s.cfg.connect(ctx, pc.ConnConfig)
	if err != nil {
		return nil, s.classify(ctx, "connect", err)
	}
	// A copy takes as long as it takes, whatever the role has for others.
	_, err = conn.Exec(ctx, "SET statement_timeout=0; SET lock_timeout=0; SET idle_in_transaction_session_timeout=0",
		pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		_ = conn.Close(context.WithoutCancel(ctx)) // the error that counts is there
	}
	return &moveEnd{s, dsn, conn}, s.classify(ctx, "prepare the connection", err)
}

// named returns a name in the schema, and formerly one in the schema as it is called once it is fenced.
func (e *moveEnd) named(table string) string    { return pgx.Identifier{e.schema, table}.Sanitize() }
func (e *moveEnd) formerly(table string) string { return pgx.Identifier{e.former(), table}.Sanitize() }
func (e *moveEnd) former() string               { return e.schema + formerSuffix }

// Move moves a database of a store over several ones (OpenAll) from one address to another, and what is in it: to a new
// server, or to another schema. Processes may work on the store: for them the database is away from the moment when
// its open transactions have ended until all is copied; the runs of the other databases go on. Afterwards processes
// that name the old address find the new one by a note at the old one, which is to stay until all of them name the new
// one. They connect there with the password that they have, if the address in the note has none, as Move leaves it out.
//
// A Move that was killed is continued by another one with the same addresses; until then the database is away.
// One that fails says so, and has changed nothing, unless its error says otherwise.
//
// ctx bounds it. Options are those of Open, for both addresses, which have to be of the servers themselves, and not of
// a pooler. Errors: store.ErrInvalid if there is no database of a store over several ones at the first address, or
// something is at the second; store.ErrUnavailable if one of the servers cannot be reached, or transactions are open
// for more than a minute.
func Move(ctx context.Context, from, to string, opts ...Option) error {
	m := &mover{ctx: ctx}
	var err error
	if m.from, err = newMoveEnd(ctx, from, opts); err != nil {
		return fmt.Errorf("move a database: the former address: %w", err)
	}
	defer m.from.close()
	if m.to, err = newMoveEnd(ctx, to, opts); err != nil {
		return fmt.Errorf("move a database: the new address: %w", err)
	}
	defer m.to.close()
	m.step = m.from.cfg.moved
	if err := m.run(); err != nil {
		return m.from.classify(ctx, "move a database", fmt.Errorf("move a database: %w", err))
	}
	return nil
}

func (e *moveEnd) close() {
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	defer cancel()
	_ = e.conn.Close(ctx) // what counts is committed
}

// did reports a statement that was carried out.
func (m *mover) did(statement string, err error) error {
	if err == nil && m.step != nil {
		if err = m.step(statement); err != nil {
			m.cut = true
		}
	}
	return err
}

func (m *mover) exec(e *moveEnd, text string, args ...any) error {
	_, err := e.conn.Exec(m.ctx, text, args...)
	if err != nil {
		return fmt.Errorf("%.80s: %w", text, err)
	}
	return m.did(text, nil)
}

// text returns a text, or "" if there is none.
func (m *mover) text(e *moveEnd, query string, args ...any) (value string, err error) {
	err = e.conn.QueryRow(m.ctx, query, args...).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return value, err
}

// there reports whether there is a store's meta in a schema.
func (m *mover) there(e *moveEnd, meta string) (yes bool, err error) {
	err = e.conn.QueryRow(m.ctx, "SELECT to_regclass($1) IS NOT NULL", meta).Scan(&yes)
	return yes, err
}

func (m *mover) meta(e *moveEnd, meta, key string) (string, error) {
	return m.text(e, "SELECT value FROM "+meta+" WHERE key=$1", key)
}

func (m *mover) run() error {
	about, err := readServer(m.ctx, m.to.conn)
	if err == nil {
		_, err = about.durable(m.to.cfg.lossy)
	}
	if err != nil {
		return err
	}
	var alone bool
	if err := m.from.conn.QueryRow(m.ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))",
		"stet move "+m.from.schema).Scan(&alone); err != nil {
		return err
	}
	if !alone {
		return fmt.Errorf("%w: another process moves it", store.ErrUnavailable)
	}
	came, err := m.find()
	if err != nil {
		return err
	}
	if !came {
		if err := m.copy(); err != nil {
			return err
		}
	}
	if err := m.exec(m.from, "INSERT INTO "+m.from.formerly("meta")+
		" (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value=excluded.value", movedKey, m.is.To); err != nil {
		return fmt.Errorf("it is at the new address; processes find it there once the note at the old one is written: move "+
			"it again to write it: %w", err)
	}
	return m.clear()
}

// find finds out how far the move is, and fences the schema if it has not begun. came says that all is copied.
func (m *mover) find() (came bool, err error) {
	live, err := m.there(m.from, m.from.named("meta"))
	if err != nil {
		return false, err
	}
	former, err := m.there(m.from, m.from.formerly("meta"))
	if err != nil {
		return false, err
	}
	is := ""
	if former && !live {
		if is, err = m.meta(m.from, m.from.formerly("meta"), movingKey); err != nil {
			return false, err
		}
	}
	to := withoutPassword(m.to.dsn)
	switch {
	case live:
		return false, m.begin(to, former)
	case is == "":
		return false, fmt.Errorf("%w: expected a database of a store in schema %s, found none", store.ErrInvalid,
			m.from.schema)
	}
	if err := json.Unmarshal([]byte(is), &m.is); err != nil {
		return false, fmt.Errorf("%w: what is being moved cannot be read: %w", store.ErrDamaged, err)
	}
	if m.is.To != to {
		return false, fmt.Errorf("%w: expected the address to which it is being moved, or was, %s; found %s",
			store.ErrInvalid, m.is.To, to)
	}
	there, err := m.there(m.to, m.to.named("meta"))
	if err != nil || !there {
		moved, failed := m.meta(m.from, m.from.formerly("meta"), movedKey)
		if err = errors.Join(err, failed); err == nil && moved != "" {
			err = fmt.Errorf("%w: it was moved to %s, and is not there any more", store.ErrInvalid, moved)
		}
		return false, err
	}
	id, err := m.meta(m.to, m.to.named("meta"), cameKey)
	if err == nil && id != m.is.ID {
		err = fmt.Errorf("%w: expected no schema %s at the new address, found another store", store.ErrInvalid, m.to.schema)
	}
	return err == nil, err
}

// begin checks that the move can be, and fences the schema. former: a note of an earlier move is in the way.
func (m *mover) begin(to string, former bool) error {
	place, err := m.meta(m.from, m.from.named("meta"), placementKey)
	if err != nil {
		return err
	}
	if place == "" {
		return fmt.Errorf("%w: expected a database of a store over several ones, found a store of its own in schema %s: "+
			"move that with the means of Postgres", store.ErrInvalid, m.from.schema)
	}
	var schemas int
	if err := m.to.conn.QueryRow(m.ctx, "SELECT count(*) FROM pg_namespace WHERE nspname=$1", m.to.schema).
		Scan(&schemas); err != nil {
		return err
	}
	if schemas > 0 {
		return fmt.Errorf("%w: expected no schema %s at the new address, found one", store.ErrInvalid, m.to.schema)
	}
	var may bool
	if err := m.to.conn.QueryRow(m.ctx, "SELECT has_database_privilege(current_database(), 'CREATE')").
		Scan(&may); err != nil {
		return err
	}
	if !may {
		return fmt.Errorf("%w: expected a role that may make a schema at the new address: GRANT CREATE ON DATABASE",
			store.ErrInvalid)
	}
	list, err := m.from.cfg.migrations()
	if err != nil {
		return err
	}
	version, err := (&tx{ctx: m.ctx, s: m.from.Store, conn: m.from.conn}).schemaVersion(list)
	if err == nil && version != len(list) {
		err = fmt.Errorf("%w: expected schema %d, found %d: bring the store up to date first, with stet migrate",
			store.ErrSchema, len(list), version)
	}
	if err != nil {
		return err
	}
	if former {
		if err := m.exec(m.from, "DROP SCHEMA "+pgx.Identifier{m.from.former()}.Sanitize()+" CASCADE"); err != nil {
			return err
		}
	}
	var id [8]byte
	rand.Read(id[:])
	m.is = moving{hex.EncodeToString(id[:]), to}
	for begun := time.Now(); ; {
		err := m.fence()
		if code := sqlState(err); code != "55P03" && code != "40P01" || time.Since(begun) > fenceLimit {
			return err
		}
		select {
		case <-time.After(fencePause):
		case <-m.ctx.Done():
			return m.ctx.Err()
		}
	}
}

// transaction calls fn in a transaction at one end.
func (m *mover) transaction(e *moveEnd, fn func() error) error {
	if err := m.exec(e, "BEGIN ISOLATION LEVEL READ COMMITTED"); err != nil {
		return err
	}
	err := fn()
	if err == nil {
		return m.exec(e, "COMMIT")
	}
	if m.cut {
		return err // a killed process says nothing more
	}
	if _, failed := e.conn.Exec(context.WithoutCancel(m.ctx), "ROLLBACK"); failed != nil {
		err = errors.Join(err, failed)
	}
	return err
}

// fence waits until nothing is under way, and takes the schema away.
func (m *mover) fence() error {
	tables, err := m.tables(m.from.schema)
	if err != nil {
		return err
	}
	value, err := json.Marshal(m.is)
	if err != nil {
		return err
	}
	return m.transaction(m.from, func() error {
		if err := m.exec(m.from, "SET LOCAL lock_timeout='100ms'"); err != nil {
			return err
		}
		names := make([]string, len(tables))
		for i, table := range tables {
			names[i] = m.from.named(table)
		}
		if err := m.exec(m.from, "LOCK TABLE "+strings.Join(names, ", ")+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		if err := m.exec(m.from, "INSERT INTO "+m.from.named("meta")+" (key, value) VALUES ($1, $2)", movingKey,
			string(value)); err != nil {
			return err
		}
		return m.exec(m.from, "ALTER SCHEMA "+pgx.Identifier{m.from.schema}.Sanitize()+" RENAME TO "+
			pgx.Identifier{m.from.former()}.Sanitize())
	})
}

// undo gives the schema its name back.
func (m *mover) undo() error {
	return m.transaction(m.from, func() error {
		if err := m.exec(m.from, "DELETE FROM "+m.from.formerly("meta")+" WHERE key=$1", movingKey); err != nil {
			return err
		}
		return m.exec(m.from, "ALTER SCHEMA "+pgx.Identifier{m.from.former()}.Sanitize()+" RENAME TO "+
			pgx.Identifier{m.from.schema}.Sanitize())
	})
}

func (m *mover) tables(schema string) ([]string, error) {
	rows, err := m.from.conn.Query(m.ctx, "SELECT tablename::text FROM pg_tables WHERE schemaname=$1 ORDER BY 1", schema)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// copy makes the schema at the new address, with all that is in the fenced one.
func (m *mover) copy() error {
	made, ended := false, false // the schema was made by this transaction; it may be committed
	err := m.transaction(m.to, func() error {
		if err := m.exec(m.to, "CREATE SCHEMA "+pgx.Identifier{m.to.schema}.Sanitize()); err != nil {
			return err
		}
		made = true
		if err := m.makeTables(); err != nil {
			return err
		}
		tables, err := m.tables(m.from.former())
		if err != nil {
			return err
		}
		for _, table := range tables {
			if err := m.copyTable(table); err != nil {
				return fmt.Errorf("copy the table %s: %w", table, err)
			}
		}
		if err := m.finish(); err != nil {
			return err
		}
		ended = true
		return nil
	})
	switch {
	case err == nil || m.cut:
		return err
	case made && !ended:
		if failed := m.undo(); failed != nil {
			return fmt.Errorf("%w; the database stays away until it is moved: %w", err, failed)
		}
		return err
	}
	return fmt.Errorf("the database is away until it is moved; move it again: %w", err)
}

// makeTables makes the tables at the new address.
func (m *mover) makeTables() error {
	list, err := m.to.cfg.migrations()
	if err != nil {
		return err
	}
	if err := m.exec(m.to, m.to.sql(ledgerText)); err != nil {
		return err
	}
	for i := range list {
		// Nobody else sees the tables: indexes need not be built CONCURRENTLY, which no transaction can.
		text := strings.ReplaceAll(m.to.sql(list[i].SQL), " CONCURRENTLY", "")
		if _, err := m.to.conn.PgConn().Exec(m.ctx, text).ReadAll(); err != nil {
			return fmt.Errorf("migration %s: %w", list[i].Name, err)
		}
		if err := m.did(list[i].Name, nil); err != nil {
			return err
		}
	}
	return nil
}

// copyTable copies a table, and the states of its sequences.
func (m *mover) copyTable(table string) error {
	if err := m.exec(m.to, "DELETE FROM "+m.to.named(table)); err != nil { // what a migration has put there
		return err
	}
	columns, err := m.text(m.from, `SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
		WHERE attrelid=$1::text::regclass AND attnum>0 AND NOT attisdropped AND attgenerated=''`, m.from.formerly(table))
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	read := make(chan error, 1)
	go func() {
		_, err := m.from.conn.PgConn().CopyTo(m.ctx, w, "COPY (SELECT "+columns+" FROM "+m.from.formerly(table)+
			") TO STDOUT (FORMAT binary)")
		_ = w.CloseWithError(err) // never fails
		read <- err
	}()
	statement := "COPY " + m.to.named(table) + " (" + columns + ") FROM STDIN (FORMAT binary)"
	_, err = m.to.conn.PgConn().CopyFrom(m.ctx, r, statement)
	_ = r.CloseWithError(err) // never fails
	if err := errors.Join(err, <-read); err != nil {
		return err
	}
	if err := m.did(statement, nil); err != nil {
		return err
	}
	rows, err := m.from.conn.Query(m.ctx, `SELECT attname::text FROM pg_attribute WHERE attrelid=$1::text::regclass AND
		attidentity<>'' AND NOT attisdropped`, m.from.formerly(table))
	if err != nil {
		return err
	}
	identities, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, column := range identities {
		last, err := m.text(m.from,
			`SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence($1, $2)::regclass), 0)::text`,
			m.from.formerly(table), column)
		if err != nil {
			return err
		}
		if last == "0" {
			continue // it has given no number
		}
		if err := m.exec(m.to, "SELECT setval(pg_get_serial_sequence($1, $2), $3::text::bigint)", m.to.named(table), column,
			last); err != nil {
			return err
		}
	}
	return nil
}

// finish makes the copy the database.
func (m *mover) finish() error {
	t := &tx{ctx: m.ctx, s: m.to.Store, conn: m.to.conn}
	slots := 0
	if _, err := t.row("SELECT value::integer FROM stet.meta WHERE key='slots'", nil, &slots); err != nil {
		return err
	}
	if err := m.did("numbers", t.numberBySlots(slots)); err != nil {
		return err
	}
	meta := m.to.named("meta")
	if err := m.exec(m.to, "DELETE FROM "+meta+" WHERE key=ANY($1::text[])",
		[]string{movingKey, cameKey, timelineKey, replicationKey, systemKey}); err != nil {
		return err
	}
	p, err := placeOf(m.ctx, m.to.conn)
	if err == nil && p.timeline != 0 {
		err = m.to.servers.settle(m.ctx, m.to.conn, p)
	}
	if err != nil {
		return err
	}
	if err := m.exec(m.to, "INSERT INTO "+meta+" (key, value) VALUES ($1, $2)", cameKey, m.is.ID); err != nil {
		return err
	}
	for _, table := range []string{"runs", "entries", "inbox", "leases", "boots"} {
		if err := m.exec(m.to, "ANALYZE "+m.to.named(table)); err != nil {
			return err
		}
	}
	return nil
}

// clear deletes what was moved, and leaves the note.
func (m *mover) clear() error {
	tables, err := m.tables(m.from.former())
	if err != nil {
		return err
	}
	return m.transaction(m.from, func() error {
		for _, table := range tables {
			if table == "meta" {
				continue
			}
			if err := m.exec(m.from, "DROP TABLE "+m.from.formerly(table)+" CASCADE"); err != nil {
				return err
			}
		}
		return nil
	})
}

var passwordWord = regexp.MustCompile(`\s*\bpassword\s*=\s*('(\\.|[^'\\])*'|\S+)`)

// withoutPassword returns an address without a password.
func withoutPassword(dsn string) string {
	if !strings.Contains(dsn, "://") {
		return strings.TrimSpace(passwordWord.ReplaceAllString(dsn, ""))
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return dsn // prepare has refused it
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	q := u.Query()
	if q.Has("password") {
		q.Del("password")
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// maxMoves bounds how many notes are followed, one after the other.
const maxMoves = 16

// follow returns the address at which a database is that was moved, perhaps more than once, and the options for it.
// store.ErrUnavailable: it is being moved. id is that of the store in the schema, "" if there is none.
func follow(ctx context.Context, dsn string, opts []Option) (at string, with []Option, id string, err error) {
	for range maxMoves {
		s, pc, err := prepare(dsn, opts)
		if err != nil {
			return "", nil, "", err
		}
		next, id, err := noteAt(ctx, s, pc.ConnConfig)
		if err != nil || next == "" {
			return dsn, opts, id, s.classify(ctx, "look for the schema", err)
		}
		dsn, opts = next, append(opts[:len(opts):len(opts)], password(pc.ConnConfig.Password))
	}
	return "", nil, "", fmt.Errorf("%w: expected a database that was moved at most %d times", store.ErrDamaged,
		maxMoves)
}

// password is used where the address has none.
func password(word string) Option { return func(c *config) { c.password = word } }

// noteAt returns the address to which the schema was moved, or "", and the ID of the store that is in it, or "".
func noteAt(ctx context.Context, s *Store, cc *pgx.ConnConfig) (next, id string, err error) {
	cc = cc.Copy()
	cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := s.cfg.connect(ctx, cc)
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	e := &moveEnd{Store: s, conn: conn}
	m := &mover{ctx: ctx}
	live, err := m.there(e, e.named("meta"))
	if err == nil && live {
		id, err = m.meta(e, e.named("meta"), "id") // which fails if it goes away now
	}
	if err != nil || live {
		return "", id, err
	}
	former, err := m.there(e, e.formerly("meta"))
	if err != nil || !former {
		return "", "", err
	}
	if next, err = m.meta(e, e.formerly("meta"), movedKey); err == nil && next == "" {
		err = fmt.Errorf("%w: schema %s is being moved; if nothing does so any more, continue with stet databases move or "+
			"postgres.Move", store.ErrUnavailable, s.schema)
	}
	return next, "", err
}
