package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one step of the schema. Its number is its place in the list.
type migration struct {
	name, sql, sum string
	// oldest is the number of the last migration that a binary must know to use
	// the store after this one. It stands in the first line of the text.
	oldest int
}

func migrations() ([]migration, error) {
	files, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		return nil, err
	}
	list := make([]migration, len(files))
	for i, f := range files {
		text, err := migrationFiles.ReadFile(path.Join("migrations", f.Name()))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		m := migration{name: f.Name(), sql: string(text), sum: hex.EncodeToString(sum[:])}
		if _, err := fmt.Sscanf(m.sql, "-- oldest: %d\n", &m.oldest); err != nil || m.oldest < 1 || m.oldest > i+1 {
			return nil, fmt.Errorf("migration %s: expected the first line \"-- oldest: N\"", m.name)
		}
		list[i] = m
	}
	return list, nil
}

// migrate brings the schema up to date, one transaction for all steps. The ledger
// holds the checksum of each step that was applied.
func (s *Store) migrate(ctx context.Context) error {
	list, err := migrations()
	if err != nil {
		return err
	}
	for {
		err = s.look(ctx, "read the schema", func(t *tx) error {
			s.version, err = t.schemaVersion(list)
			return err
		})
		if err != nil || s.version >= len(list) {
			return err
		}
		if err = s.advance(ctx, list); !errors.Is(err, errConcurrently) {
			return err
		}
	}
}

// advance applies what the store lacks.
func (s *Store) advance(ctx context.Context, list []migration) error {
	return s.write(ctx, "migrate schema "+s.schema, lockLimit, func(t *tx, now store.Time) error {
		// Two processes may come to it at once. One of them makes the table, the other
		// waits for it, here or at the table's lock.
		_, err := t.exec("CREATE SCHEMA IF NOT EXISTS " + pgx.Identifier{s.schema}.Sanitize())
		if err != nil {
			return concurrently(err)
		}
		if _, err := t.exec(`CREATE TABLE IF NOT EXISTS stet.migrations (
			number integer PRIMARY KEY, name text NOT NULL, sum text NOT NULL, oldest integer NOT NULL, applied bigint NOT NULL)`); err != nil {
			return concurrently(err)
		}
		if _, err := t.exec("LOCK TABLE stet.migrations IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		from, err := t.schemaVersion(list)
		if err != nil {
			return err
		}
		for i := from; i < len(list); i++ {
			m := &list[i]
			if _, err := t.conn.PgConn().Exec(ctx, s.sql(m.sql)).ReadAll(); err != nil {
				return fmt.Errorf("migration %s: %w", m.name, err)
			}
			if _, err := t.exec("INSERT INTO stet.migrations (number, name, sum, oldest, applied) VALUES ($1,$2,$3,$4,$5)",
				i+1, m.name, m.sum, m.oldest, now); err != nil {
				return err
			}
		}
		s.version = max(from, len(list))
		if from > 0 {
			return nil
		}
		id := make([]byte, 16)
		rand.Read(id)
		_, err = t.exec("INSERT INTO stet.meta (key, value) VALUES ('id', $1), ('slots', $2)", hex.EncodeToString(id), strconv.Itoa(s.cfg.slots))
		return err
	})
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

// schemaVersion returns how many migrations the store has had, and checks that
// this binary can use it.
func (t *tx) schemaVersion(list []migration) (version int, err error) {
	var there bool
	if _, err := t.row("SELECT to_regclass($1) IS NOT NULL", []any{t.s.sql("stet.migrations")}, &there); err != nil || !there {
		return 0, err
	}
	oldest := 0
	err = t.each("SELECT number, name, sum, oldest FROM stet.migrations ORDER BY number", nil, func(scan func(...any) error) error {
		var number, needs int
		var name, sum string
		if err := scan(&number, &name, &sum, &needs); err != nil {
			return err
		}
		version++
		oldest = max(oldest, needs)
		switch {
		case number != version:
			return fmt.Errorf("%w: the ledger of schema %s lacks migration %d: restore a backup", store.ErrSchema, t.s.schema, version)
		case number <= len(list) && sum != list[number-1].sum:
			return fmt.Errorf("%w: migration %s was applied to schema %s with another text than this binary has: use the binary that made it",
				store.ErrSchema, name, t.s.schema)
		}
		return nil
	})
	if err == nil && oldest > len(list) {
		err = fmt.Errorf("%w: schema %s has version %d, which needs a binary that knows version %d; this one knows %d: use a newer one",
			store.ErrSchema, t.s.schema, version, oldest, len(list))
	}
	return version, err
}

// SchemaStatus says which schema a store has and which this binary brings.
type SchemaStatus struct {
	Store  int // 0: there is no store
	Latest int
}

// ReadSchema returns the schema of the store that Open would open, and changes
// nothing. Errors are those of Open.
func ReadSchema(ctx context.Context, dsn string, opts ...Option) (SchemaStatus, error) {
	list, err := migrations()
	if err != nil {
		return SchemaStatus{}, err
	}
	status := SchemaStatus{Latest: len(list)}
	s, pc, err := prepare(dsn, opts)
	if err != nil {
		return status, err
	}
	pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, pc.ConnConfig)
	if err != nil {
		return status, s.classify(ctx, "read the schema", err)
	}
	status.Store, err = (&tx{ctx: ctx, s: s, conn: conn}).schemaVersion(list)
	return status, s.classify(ctx, "read the schema", errors.Join(err, conn.Close(ctx)))
}
