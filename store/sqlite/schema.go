package sqlite

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

func migrations() ([]sqlstore.Migration, error) { return sqlstore.Migrations(migrationFiles) }

// applicationID marks an SQLite file that was made by stet: "stet" in ASCII.
const applicationID = 0x73746574

// migrate brings the schema up to date, one transaction for all steps. The ledger
// holds the checksum of each step that was applied.
func (s *Store) migrate(ctx context.Context) error {
	list, err := migrations()
	if err != nil {
		return err
	}
	return s.advance(ctx, list)
}

// advance applies those of the migrations that the file lacks, with temporary files: one may build an index over a
// large table, for which the memory of the connection is too small.
func (s *Store) advance(ctx context.Context, list []sqlstore.Migration) error {
	schema, err := s.mayUse(s.write.c, list)
	s.schema = schema.version
	if err != nil || schema.version >= len(list) {
		return err
	}
	if err := s.write.c.sortOnDisk(schema.version > 0); err != nil { // a new file has nothing to sort
		return err
	}
	err = s.write.do(ctx, "migrate "+s.cfg.path, func(c *conn, now store.Time) error {
		schema, err := s.mayUse(c, list) // another process may have been first
		if err != nil {
			return err
		}
		if err := c.advance(schema, list, now); err != nil {
			return err
		}
		s.schema = max(schema.version, len(list))
		return nil
	})
	if err != nil {
		return err // Open ends
	}
	return s.write.c.sortOnDisk(false)
}

// mayUse reads the schema of the file. It refuses a schema that this binary cannot use, and
// a file of another application.
func (s *Store) mayUse(c *conn, list []sqlstore.Migration) (fileSchema, error) {
	schema, err := c.schema(s.cfg.path, list)
	if err == nil && schema.version == 0 && schema.others > 0 && !s.cfg.shared {
		err = fmt.Errorf("%w: %s is an SQLite file of another application, with %d tables and indexes: give stet a file of "+
			"its own, or open this one with the option Shared",
			store.ErrSchema, s.cfg.path, schema.others)
	}
	return schema, err
}

// advance applies the migrations that the file lacks.
func (c *conn) advance(from fileSchema, list []sqlstore.Migration, now store.Time) error {
	if from.version == 0 {
		create := `CREATE TABLE stet_migrations (
			number INTEGER PRIMARY KEY, name TEXT NOT NULL, sum TEXT NOT NULL, oldest INTEGER NOT NULL,
			applied INTEGER NOT NULL)`
		if from.others == 0 {
			create = fmt.Sprintf("PRAGMA application_id=%d; %s", applicationID, create)
		}
		if err := c.Exec(create); err != nil {
			return err
		}
	}
	for i := from.version; i < len(list); i++ {
		m := &list[i]
		if err := c.Exec(m.SQL); err != nil {
			return fmt.Errorf("migration %s: %w", m.Name, err)
		}
		if _, err := c.exec(form(sqlstore.RecordMigration), i+1, m.Name, m.Sum, m.Oldest, now); err != nil {
			return err
		}
	}
	if from.version > 0 {
		return nil
	}
	id := make([]byte, 16)
	rand.Read(id)
	_, err := c.exec("INSERT INTO stet_meta (key, value) VALUES ('id', ?), ('slots', '1')", hex.EncodeToString(id))
	return err
}

// fileSchema is the schema of a file.
type fileSchema struct {
	version int   // migrations that were applied to the file
	others  int64 // with version 0: tables and indexes that are not stet's
}

// schema reads the schema of the file and checks that this binary can use it.
func (c *conn) schema(file string, list []sqlstore.Migration) (fileSchema, error) {
	var found fileSchema
	var ours int64 // in the same statement: another process may be creating the tables
	if _, err := c.row("SELECT count(*), coalesce(sum(type='table' AND name='stet_migrations'), 0) FROM sqlite_schema",
		nil, &found.others, &ours); err != nil || ours == 0 {
		return found, err
	}
	found.others = 0
	ledger := sqlstore.Ledger{Where: file, Known: list}
	err := c.each(form(sqlstore.LedgerText), nil, func(r *sqlite3.Stmt) error {
		return ledger.Add(r.ColumnInt(0), r.ColumnText(1), r.ColumnText(2), r.ColumnInt(3))
	})
	if err == nil {
		err = ledger.Check()
	}
	found.version = ledger.Version
	return found, err
}

// SchemaStatus is the schema of a store beside that of this binary.
type SchemaStatus struct {
	Store  int // 0: the file does not exist or is empty
	Latest int
}

// ReadSchema returns the schema of the store that Open would open, and changes
// nothing. Errors are those of Open.
func ReadSchema(ctx context.Context, file string) (SchemaStatus, error) {
	list, err := migrations()
	if err != nil {
		return SchemaStatus{}, err
	}
	status := SchemaStatus{Latest: len(list)}
	if _, err := os.Stat(file); os.IsNotExist(err) {
		return status, nil
	}
	if err := checkPath(file, ""); err != nil {
		return status, err
	}
	c, err := openConn(ctx, &config{path: file}, sqlite3.OPEN_READONLY)
	if err != nil {
		return status, classifyWithin(ctx, "open "+file, err)
	}
	defer c.close()
	schema, err := c.schema(file, list)
	status.Store = schema.version
	return status, classify("read the schema of "+file, err)
}
