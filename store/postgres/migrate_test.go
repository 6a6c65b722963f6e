package postgres_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// withMigration returns the store's migrations, and one more.
func withMigration(t *testing.T, text string) postgres.Option {
	t.Helper()
	files := fstest.MapFS{"migrations/9999_more.sql": {Data: []byte(text)}}
	list, err := fs.ReadDir(postgres.MigrationFiles(), "migrations")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		text, err := fs.ReadFile(postgres.MigrationFiles(), "migrations/"+f.Name())
		if err != nil {
			t.Fatal(err)
		}
		files["migrations/"+f.Name()] = &fstest.MapFile{Data: text}
	}
	return postgres.Migrations(files)
}

// migrations returns how many migrations the store has.
func migrations(t *testing.T) int {
	t.Helper()
	list, err := fs.ReadDir(postgres.MigrationFiles(), "migrations")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestIndexOfAStoreInUse: a later migration builds an index of a table that is in use. It waits
// for the transactions that are open; commits do not wait for it. Two processes that begin it at
// the same time build it once.
func TestIndexOfAStoreInUse(t *testing.T) {
	t.Parallel()
	dsn, schema := newDatabase(t).DSN(), "stet" // of its own: an index waits for all that is open in a database
	opts := []postgres.Option{postgres.Schema(schema), postgres.AllowLoss(), postgres.Patient()}
	n := takeAll(t, open(t, dsn, opts...), "n")
	n.started(t, "before")
	more := append(opts, withMigration(t, `-- oldest: 1
-- no transaction

-- For listings by the time of the start; one that was cut short is dropped.
DROP INDEX CONCURRENTLY IF EXISTS stet.runs_started;
CREATE INDEX CONCURRENTLY runs_started
	ON stet.runs (started);
`))
	somebody, watcher := application(t, dsn), application(t, dsn)
	if _, err := somebody.Exec(t.Context(), "BEGIN; UPDATE "+schema+".runs SET reason=reason"); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 2)
	for range 2 {
		go func() {
			s, err := postgres.Open(t.Context(), dsn, more...)
			if err == nil {
				err = s.Close()
			}
			migrated <- err
		}()
	}
	waiting := func(query string) (waits int) {
		if err := watcher.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type='Lock' AND datname=current_database() AND query LIKE $1`, query).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits
	}
	servers.Until(t, "one waits for the open transaction, the other for the first", func() bool {
		return waiting("%CREATE INDEX CONCURRENTLY%"+schema+"%") == 1 && waiting("LOCK TABLE%"+schema+"%") == 1
	})
	for i := range 20 {
		n.started(t, fmt.Sprint("meanwhile-", i))
	}
	select {
	case err := <-migrated:
		t.Errorf("the migration did not wait: %v", err)
	default:
	}
	if _, err := somebody.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-migrated; err != nil {
			t.Error(err)
		}
	}
	var valid bool
	var applied int
	if err := watcher.QueryRow(t.Context(), `SELECT indisvalid, (SELECT count(*) FROM `+schema+`.migrations)
		FROM pg_index WHERE indexrelid=$1::regclass`, schema+".runs_started").Scan(&valid, &applied); err != nil {
		t.Fatal(err)
	}
	if all := migrations(t) + 1; !valid || applied != all {
		t.Errorf("the index is valid: %v; %d migrations are applied, expected %d", valid, applied, all)
	}
	n.started(t, "after")
}

// TestIndexThatCannotBeBuilt: a migration that fails half way is not noted. The next process
// begins it again, and clears up what the first one has left.
func TestIndexThatCannotBeBuilt(t *testing.T) {
	t.Parallel()
	dsn, schema := newDatabase(t).DSN(), "stet" // of its own: an index waits for all that is open in a database
	opts := []postgres.Option{postgres.Schema(schema), postgres.AllowLoss()}
	n := takeAll(t, open(t, dsn, opts...), "n")
	run := n.started(t, "one")
	n.started(t, "two")
	more := append(opts, withMigration(t, `-- oldest: 1
-- no transaction
DROP INDEX CONCURRENTLY IF EXISTS stet.runs_unique;
CREATE UNIQUE INDEX CONCURRENTLY runs_unique ON stet.runs (workflow, seed);
`))
	if s, err := postgres.Open(t.Context(), dsn, more...); err == nil || !strings.Contains(err.Error(), "9999_more.sql") {
		t.Fatalf("expected the migration to fail, found %v, %v", s, err)
	}
	if is, err := postgres.ReadSchema(t.Context(), dsn, more...); err != nil ||
		is.Store != migrations(t) || is.Latest != migrations(t)+1 {
		t.Fatalf("the schema after it: %+v, %v", is, err)
	}
	n.commit(t, &store.Turn{Run: run.No, Shard: run.Shard, Insert: true, Entries: []store.Entry{done("a")}})
	admin := application(t, dsn)
	if _, err := admin.Exec(t.Context(), "UPDATE "+schema+".runs SET seed=sha256(id::bytea)"); err != nil {
		t.Fatal(err)
	}
	s := open(t, dsn, more...)
	if d, err := s.Describe(t.Context()); err != nil || d.Schema != migrations(t)+1 {
		t.Errorf("%+v, %v", d.Schema, err)
	}
	var valid bool
	if err := admin.QueryRow(t.Context(), "SELECT indisvalid FROM pg_index WHERE indexrelid=$1::regclass",
		schema+".runs_unique").Scan(&valid); err != nil || !valid {
		t.Errorf("the index is valid: %v, %v", valid, err)
	}
}
