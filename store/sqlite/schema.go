package sqlite

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"os"
	"path"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one step of the schema. Its number is its place in the list.
type migration struct {
	name, sql, sum string
	// oldest is the number of the last migration that a binary must know to use
	// the file after this one. It stands in the first line of the text.
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

// applicationID marks an SQLite file that was made by stet: "stet" in ASCII.
const applicationID = 0x73746574

// migrate brings the schema up to date, one transaction for all steps. The ledger
// holds the checksum of each step that was applied.
func (s *Store) migrate(ctx context.Context) error {
	list, err := migrations()
	if err != nil {
		return err
	}
	schema, err := s.mayUse(s.write.c, list)
	s.schema = schema.version
	if err != nil || schema.version >= len(list) {
		return err
	}
	return s.write.do(ctx, "migrate "+s.cfg.path, func(c *conn, now store.Time) error {
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
}

// mayUse reads the schema of the file. It refuses one that is not for this
// binary, or of another application.
func (s *Store) mayUse(c *conn, list []migration) (fileSchema, error) {
	schema, err := c.schema(s.cfg.path, list)
	if err == nil && schema.version == 0 && schema.others > 0 && !s.cfg.shared {
		err = fmt.Errorf("%w: %s is an SQLite file of another application, with %d tables and indexes: give stet a file of its own, or open this one with the option Shared",
			store.ErrSchema, s.cfg.path, schema.others)
	}
	return schema, err
}

// advance applies what the file lacks.
func (c *conn) advance(from fileSchema, list []migration, now store.Time) error {
	if from.version == 0 {
		create := `CREATE TABLE stet_migrations (
			number INTEGER PRIMARY KEY, name TEXT NOT NULL, sum TEXT NOT NULL, oldest INTEGER NOT NULL, applied INTEGER NOT NULL)`
		if from.others == 0 {
			create = fmt.Sprintf("PRAGMA application_id=%d; %s", applicationID, create)
		}
		if err := c.Exec(create); err != nil {
			return err
		}
	}
	for i := from.version; i < len(list); i++ {
		m := &list[i]
		if err := c.Exec(m.sql); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
		if _, err := c.exec("INSERT INTO stet_migrations (number, name, sum, oldest, applied) VALUES (?,?,?,?,?)",
			i+1, m.name, m.sum, m.oldest, now); err != nil {
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
	version int   // migrations that the file has had; 0: none
	others  int64 // with version 0: tables and indexes that are not stet's
}

// schema reads the schema of the file and checks that this binary can use it.
func (c *conn) schema(file string, list []migration) (fileSchema, error) {
	var found fileSchema
	var ours int64 // in the same statement: another process may be creating the tables
	if _, err := c.row("SELECT count(*), coalesce(sum(type='table' AND name='stet_migrations'), 0) FROM sqlite_schema", nil, &found.others, &ours); err != nil || ours == 0 {
		return found, err
	}
	found.others = 0
	var oldest int64
	err := c.each("SELECT number, name, sum, oldest FROM stet_migrations ORDER BY number", nil, func(r *sqlite3.Stmt) error {
		number, name := r.ColumnInt(0), r.ColumnText(1)
		found.version++
		oldest = max(oldest, r.ColumnInt64(3))
		switch {
		case number != found.version:
			return fmt.Errorf("%w: the ledger of %s lacks migration %d: restore a backup", store.ErrSchema, file, found.version)
		case number <= len(list) && r.ColumnText(2) != list[number-1].sum:
			return fmt.Errorf("%w: migration %s was applied to %s with another text than this binary has: use the binary that wrote the file",
				store.ErrSchema, name, file)
		}
		return nil
	})
	if err == nil && oldest > int64(len(list)) {
		err = fmt.Errorf("%w: %s has schema %d, which needs a binary that knows schema %d; this one knows %d: use a newer one",
			store.ErrSchema, file, found.version, oldest, len(list))
	}
	return found, err
}

// SchemaStatus says which schema a file has and which this binary brings.
type SchemaStatus struct {
	File   int // 0: the file does not exist or is empty
	Latest int
}

// Schema returns the schema of the file without changing it. Errors are those of
// Open.
func Schema(ctx context.Context, file string) (SchemaStatus, error) {
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
	status.File = schema.version
	return status, classify("read the schema of "+file, err)
}
