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
		list[i] = migration{f.Name(), string(text), hex.EncodeToString(sum[:])}
	}
	return list, nil
}

// applicationID marks an SQLite file as a store of stet: "stet" in ASCII.
const applicationID = 0x73746574

// migrate brings the schema up to date, one transaction for all steps. The ledger
// holds the checksum of each step that was applied.
func (s *Store) migrate(ctx context.Context) error {
	list, err := migrations()
	if err != nil {
		return err
	}
	current, err := s.write.c.schemaVersion(s.cfg.path, list)
	if err != nil || current == len(list) {
		s.schema = current
		return err
	}
	return s.write.do(ctx, "migrate "+s.cfg.path, func(c *conn, now store.Time) error {
		current, err := c.schemaVersion(s.cfg.path, list) // another process may have been first
		if err != nil {
			return err
		}
		if current == 0 {
			if err := c.create(); err != nil {
				return err
			}
		}
		for i, m := range list[current:] {
			if err := c.Exec(m.sql); err != nil {
				return fmt.Errorf("migration %s: %w", m.name, err)
			}
			if _, err := c.exec("INSERT INTO migrations (number, name, sum, applied) VALUES (?,?,?,?)", current+i+1, m.name, m.sum, now); err != nil {
				return err
			}
		}
		if current == 0 {
			id := make([]byte, 16)
			rand.Read(id)
			if _, err := c.exec("INSERT INTO meta (key, value) VALUES ('id', ?), ('slots', '1')", hex.EncodeToString(id)); err != nil {
				return err
			}
		}
		s.schema = len(list)
		return nil
	})
}

// create marks an empty file and makes the ledger.
func (c *conn) create() error {
	return c.Exec(fmt.Sprintf(`PRAGMA application_id=%d;
		CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, sum TEXT NOT NULL, applied INTEGER NOT NULL)`, applicationID))
}

// schemaVersion returns how many migrations the file has had, 0 if it is empty.
func (c *conn) schemaVersion(file string, list []migration) (int, error) {
	var id, objects int64
	if _, err := c.row("PRAGMA application_id", nil, &id); err != nil {
		return 0, err
	}
	if _, err := c.row("SELECT count(*) FROM sqlite_schema", nil, &objects); err != nil {
		return 0, err
	}
	switch {
	case id == 0 && objects == 0:
		return 0, nil
	case id != applicationID:
		return 0, fmt.Errorf("%w: %s is an SQLite file of another application (id %#x, %d tables and indexes): give stet a file of its own",
			store.ErrSchema, file, id, objects)
	}
	var sums []string
	rows, err := c.stmt("SELECT sum FROM migrations ORDER BY number")
	if err != nil {
		return 0, err
	}
	for rows.Step() {
		sums = append(sums, rows.ColumnText(0))
	}
	if err := rows.Reset(); err != nil {
		return 0, err
	}
	if len(sums) > len(list) {
		return 0, fmt.Errorf("%w: %s has schema %d, this binary knows up to %d: use a newer one", store.ErrSchema, file, len(sums), len(list))
	}
	for i, sum := range sums {
		if sum != list[i].sum {
			return 0, fmt.Errorf("%w: migration %s was applied to %s with another text than this binary has: use the binary that wrote the file",
				store.ErrSchema, list[i].name, file)
		}
	}
	return len(sums), nil
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
		return status, classify("open "+file, err)
	}
	defer c.close()
	status.File, err = c.schemaVersion(file, list)
	return status, classify("read the schema of "+file, err)
}
