package postgres

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

func (c *config) migrations() ([]sqlstore.Migration, error) { return sqlstore.Migrations(c.files) }

// migrate brings the schema up to date: one transaction for all steps up to one that takes none,
// and so on. The ledger holds the checksum of each step that was applied.
func (s *Store) migrate(ctx context.Context) error {
	list, err := s.cfg.migrations()
	if err != nil {
		return err
	}
	for {
		err = s.single(ctx, "read the schema", func(t *tx) error {
			s.version, err = t.schemaVersion(list)
			return err
		})
		if err != nil || s.version >= len(list) {
			return err
		}
		if s.version == 0 && s.cfg.existing {
			return fmt.Errorf("%w: expected the schema %s, which was there a moment ago", store.ErrUnavailable, s.schema)
		}
		if list[s.version].Alone {
			err = advanceAlone(ctx, s, list)
		} else {
			err = s.advance(ctx, list)
		}
		if err != nil && !errors.Is(err, errConcurrently) {
			return err
		}
	}
}

// ledgerText makes the table of the migrations that were applied.
const ledgerText = `CREATE TABLE IF NOT EXISTS stet.migrations (
	number integer PRIMARY KEY, name text NOT NULL, sum text NOT NULL, oldest integer NOT NULL, applied bigint NOT NULL)`

// advance applies the migrations that the store lacks.
func (s *Store) advance(ctx context.Context, list []sqlstore.Migration) error {
	// Everybody who reads a table waits behind one that waits to change it: the wait is short,
	// and made again.
	return patiently(ctx, s, func() error { return advanceNow(ctx, s, list) })
}

func advanceNow(ctx context.Context, s *Store, list []sqlstore.Migration) error {
	return s.write(ctx, "migrate schema "+s.schema, waitLimit, func(t *tx, now store.Time) error {
		// Two processes may do this at once. One of them makes the table, the other waits
		// for it, here or at the table's lock.
		_, err := t.exec("CREATE SCHEMA IF NOT EXISTS " + pgx.Identifier{s.schema}.Sanitize())
		if err != nil {
			return concurrently(err)
		}
		if _, err := t.exec(ledgerText); err != nil {
			return concurrently(err)
		}
		if _, err := t.exec("LOCK TABLE stet.migrations IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		from, err := t.schemaVersion(list)
		if err == nil && from == 0 && s.cfg.existing {
			err = fmt.Errorf("%w: expected the schema %s, which was there a moment ago", store.ErrUnavailable, s.schema)
		}
		if err != nil {
			return err
		}
		i := from
		for ; i < len(list) && !list[i].Alone; i++ {
			m := &list[i]
			if _, err := t.conn.PgConn().Exec(ctx, s.sql(m.SQL)).ReadAll(); err != nil {
				return fmt.Errorf("migration %s: %w", m.Name, err)
			}
			if _, err := t.exec(sqlstore.RecordMigration, i+1, m.Name, m.Sum, m.Oldest, now); err != nil {
				return err
			}
		}
		s.version = max(from, i)
		if from > 0 {
			return nil
		}
		id := make([]byte, 16)
		rand.Read(id)
		_, err = t.exec("INSERT INTO stet.meta (key, value) VALUES ('id', $1), ('slots', $2)", hex.EncodeToString(id),
			strconv.Itoa(s.cfg.slots))
		return err
	})
}

// advanceAlone applies the next migration if it is one that takes no transaction, such as the
// building of an index CONCURRENTLY: nobody waits for it, and it waits for every transaction
// that is open. Meanwhile a transaction holds the ledger, so that no other process begins it too.
// One that was cut short is begun again, so its statements begin with DROP INDEX IF EXISTS: the
// server leaves an index that is not valid.
func advanceAlone(ctx context.Context, s *Store, list []sqlstore.Migration) error {
	return s.write(ctx, "migrate schema "+s.schema, 0, func(t *tx, now store.Time) error {
		// The transaction is idle for long, and sees no moment for which others would wait.
		if _, err := t.exec("SELECT set_config('idle_in_transaction_session_timeout', '0', true)"); err != nil {
			return err
		}
		if _, err := t.exec("LOCK TABLE stet.migrations IN SHARE UPDATE EXCLUSIVE MODE"); err != nil {
			return err
		}
		from, err := t.schemaVersion(list)
		if err != nil || from >= len(list) || !list[from].Alone {
			return err // another process has done it
		}
		// The portal of the last query has the moment that it saw until there is another one. A
		// query of the simple protocol leaves none.
		if _, err := t.conn.Exec(ctx, "SELECT 1", pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		m := &list[from]
		if err := executeAlone(ctx, s, m); err != nil {
			return fmt.Errorf("migration %s: %w", m.Name, err)
		}
		_, err = t.exec(sqlstore.RecordMigration, from+1, m.Name, m.Sum, m.Oldest, now)
		return err
	})
}

// executeAlone executes the statements of a migration over a connection of its own, which waits
// for locks as long as ctx allows.
func executeAlone(ctx context.Context, s *Store, m *sqlstore.Migration) error {
	conn, err := s.cfg.connect(ctx, s.hint.config)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SET lock_timeout=0; SET statement_timeout=0", pgx.QueryExecModeSimpleProtocol)
	for _, text := range m.Statements() {
		if err == nil {
			_, err = conn.Exec(ctx, s.sql(text), pgx.QueryExecModeSimpleProtocol)
		}
	}
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

// errConcurrently says that another process has just made the same schema or table.
var errConcurrently = errors.New("another process is making the schema")

func concurrently(err error) error {
	switch sqlState(err) {
	case "23505", "42P06", "42P07":
		return fmt.Errorf("%w: %w", errConcurrently, err)
	}
	return err
}

// schemaVersion returns the number of applied migrations, and an error if this binary
// cannot use the store.
func (t *tx) schemaVersion(list []sqlstore.Migration) (version int, err error) {
	var there bool
	if _, err := t.row("SELECT to_regclass($1) IS NOT NULL", []any{t.s.sql("stet.migrations")}, &there); err != nil ||
		!there {
		return 0, err
	}
	ledger := sqlstore.Ledger{Where: "schema " + t.s.schema, Known: list}
	err = t.each(sqlstore.LedgerText, nil, func(scan func(...any) error) error {
		var number, oldest int
		var name, sum string
		if err := scan(&number, &name, &sum, &oldest); err != nil {
			return err
		}
		return ledger.Add(number, name, sum, oldest)
	})
	if err == nil {
		err = ledger.Check()
	}
	return ledger.Version, err
}

// SchemaStatus says which schema a store has and which this binary brings.
type SchemaStatus struct {
	Store  int // 0: there is no store
	Latest int
}

// ReadSchema returns the schema of the store that Open would open, and changes
// nothing. Errors are those of Open.
func ReadSchema(ctx context.Context, dsn string, opts ...Option) (SchemaStatus, error) {
	s, pc, err := prepare(dsn, opts)
	if err != nil {
		return SchemaStatus{}, err
	}
	list, err := s.cfg.migrations()
	if err != nil {
		return SchemaStatus{}, err
	}
	status := SchemaStatus{Latest: len(list)}
	pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := s.cfg.connect(ctx, pc.ConnConfig)
	if err != nil {
		return status, s.classify(ctx, "read the schema", err)
	}
	status.Store, err = (&tx{ctx: ctx, s: s, conn: conn}).schemaVersion(list)
	if err = errors.Join(err, conn.Close(ctx)); err != nil || status.Store > 0 {
		return status, s.classify(ctx, "read the schema", err)
	}
	at, with, _, err := follow(ctx, dsn, opts) // it may be one of several databases that has moved
	if err != nil || at == dsn {
		return status, err
	}
	return ReadSchema(ctx, at, with...)
}
