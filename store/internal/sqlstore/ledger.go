package sqlstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/stet-run/stet/store"
)

// Migration is one step of a schema. Its number is its place in the list, from 1.
type Migration struct {
	Name, SQL, Sum string
	// Oldest is the number of the last migration that a binary must know to use the
	// store after this one. It stands in the first line of the text.
	Oldest int
	// Alone: its statements are executed one by one, outside of a transaction, and again from
	// the first one if that was cut short. The second line says so: "-- no transaction".
	Alone bool
}

// Statements returns the statements of a migration that takes no transaction: each ends with a
// semicolon at the end of a line.
func (m *Migration) Statements() []string {
	var list []string
	for text := range strings.SplitSeq(m.SQL, ";\n") {
		if lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
			line = strings.TrimSpace(line)
			return line == "" || strings.HasPrefix(line, "--")
		}); len(lines) > 0 {
			list = append(list, strings.Join(lines, "\n"))
		}
	}
	return list
}

// Migrations reads the steps of a schema from the folder migrations, in the order of
// their names.
func Migrations(files fs.FS) ([]Migration, error) {
	entries, err := fs.ReadDir(files, "migrations")
	if err != nil {
		return nil, err
	}
	list := make([]Migration, len(entries))
	for i, f := range entries {
		text, err := fs.ReadFile(files, path.Join("migrations", f.Name()))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		m := Migration{Name: f.Name(), SQL: string(text), Sum: hex.EncodeToString(sum[:])}
		if _, err := fmt.Sscanf(m.SQL, "-- oldest: %d\n", &m.Oldest); err != nil || m.Oldest < 1 || m.Oldest > i+1 {
			return nil, fmt.Errorf("migration %s: expected the first line \"-- oldest: N\"", m.Name)
		}
		second, _, _ := strings.Cut(m.SQL[strings.IndexByte(m.SQL, '\n')+1:], "\n")
		m.Alone = second == "-- no transaction"
		list[i] = m
	}
	return list, nil
}

// LedgerText is the query that Ledger.Add reads, in the order of the numbers.
const LedgerText = "SELECT number, name, sum, oldest FROM stet.migrations ORDER BY number"

// Ledger compares the rows of a store's ledger, one for each migration that was
// applied, with the migrations that this binary knows. Errors wrap store.ErrSchema.
type Ledger struct {
	Where   string // the store as a user knows it: a file, or a schema
	Known   []Migration
	Version int // migrations that the store has had
	oldest  int
}

// Add checks the next row of the ledger.
func (l *Ledger) Add(number int, name, sum string, oldest int) error {
	l.Version++
	l.oldest = max(l.oldest, oldest)
	switch {
	case number != l.Version:
		return fmt.Errorf("%w: the ledger of %s lacks migration %d: restore a backup", store.ErrSchema, l.Where, l.Version)
	case number <= len(l.Known) && sum != l.Known[number-1].Sum:
		return fmt.Errorf("%w: migration %s was applied to %s with another text than this binary has: "+
			"use the binary that made it",
			store.ErrSchema, name, l.Where)
	}
	return nil
}

// Check reports, after the last row, whether this binary can use the store.
func (l *Ledger) Check() error {
	if l.oldest <= len(l.Known) {
		return nil
	}
	return fmt.Errorf("%w: %s has schema version %d, which needs a binary that knows schema %d; this one knows %d: "+
		"use a newer one",
		store.ErrSchema, l.Where, l.Version, l.oldest, len(l.Known))
}

// RecordMigration is the statement that adds a row to the ledger.
const RecordMigration = "INSERT INTO stet.migrations (number, name, sum, oldest, applied) VALUES ($1,$2,$3,$4,$5)"
