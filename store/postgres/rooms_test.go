package postgres_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/internal/testing/servers"
)

// Schemas are used so often, and as long as they are not larger than that: rows that were deleted stay in them.
const (
	maxUses = 40
	maxSize = 2 << 20 // in bytes, of each schema; a new one has some 350 KB
)

// rooms are the schemas of a store, on the shared server. Tests use them one after the other, each as an empty store:
// to make the tables of one takes longer than most cases that are tried on it.
type rooms struct {
	dsn     string // its sessions have the name of the first schema
	schemas []string
	conn    *pgx.Conn // has another name
	kept    sessions  // without those of conn
	uses    int
	empty   string // the statements that make the store empty again; "": the tables are not made yet
}

// free are those that no test uses, by how many schemas they are.
var free = struct {
	mu    sync.Mutex
	rooms map[int][]*rooms
}{rooms: map[int][]*rooms{}}

// roomsOf returns so many schemas, which no other test has until this one has ended.
func roomsOf(t testing.TB, n int) *rooms {
	t.Helper()
	dsn, schema := servers.SharedPostgres(t)
	free.mu.Lock()
	var r *rooms
	if list := free.rooms[n]; len(list) > 0 {
		r, free.rooms[n] = list[len(list)-1], list[:len(list)-1]
	}
	free.mu.Unlock()
	if r == nil {
		r = &rooms{dsn: with(dsn, "application_name", schema), schemas: []string{schema}}
		for i := 1; i < n; i++ {
			r.schemas = append(r.schemas, fmt.Sprint(schema, "_", i))
		}
		var err error
		if r.conn, err = pgx.Connect(t.Context(), dsn); err != nil {
			t.Fatal(err)
		}
	}
	r.uses++
	t.Cleanup(func() { r.leave(t) }) // is called last
	return r
}

// with returns the address of a server with a parameter more.
func with(dsn, key, value string) string {
	separator := " " // of keywords and values
	if strings.Contains(dsn, "://") {
		separator = "?"
		if strings.Contains(dsn, "?") {
			separator = "&"
		}
	}
	return dsn + separator + key + "=" + value
}

// made notes how the schemas are now, when they have the tables of an empty store.
func (r *rooms) made(t testing.TB) {
	t.Helper()
	var texts []string
	for _, schema := range r.schemas {
		for _, table := range r.list(t, "SELECT tablename::text FROM pg_tables WHERE schemaname=$1", schema) {
			name := schema + "." + table
			// Statements are planned as for a new store, and not by what another test had in it.
			if _, err := r.conn.Exec(t.Context(), "ALTER TABLE "+name+" SET (autovacuum_enabled=false)"); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, "DELETE FROM "+name)
			// A store that was just opened has few rows.
			for _, row := range r.list(t, "SELECT to_json(t)::text FROM "+name+" t WHERE $1<>''", schema) {
				texts = append(texts, fmt.Sprintf("INSERT INTO %s SELECT * FROM json_populate_record(NULL::%[1]s, '%s')", name,
					strings.ReplaceAll(row, "'", "''")))
			}
		}
		texts = append(texts, r.list(t, `SELECT format('SELECT setval(''%I.%I'', %s, %L)', schemaname, sequencename,
			coalesce(last_value, start_value), last_value IS NOT NULL) FROM pg_sequences WHERE schemaname=$1`, schema)...)
	}
	r.empty = strings.Join(texts, ";")
}

func (r *rooms) list(t testing.TB, text, schema string) []string {
	t.Helper()
	rows, err := r.conn.Query(t.Context(), text, schema)
	if err != nil {
		t.Fatal(text, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(text, err)
	}
	return list
}

// leave empties the schemas for another test. After one that has failed nobody uses them.
func (r *rooms) leave(t testing.TB) {
	ctx := context.Background()
	kept := append([]int64{}, r.kept.settle()...)
	// The session of a process that was cut off may be in the midst of an act.
	servers.Until(t, "all sessions have ended", func() bool {
		tag, err := r.conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name=$1 AND NOT pid=ANY($2::bigint[])`, r.schemas[0], kept)
		if err != nil {
			t.Fatal(err)
		}
		return tag.RowsAffected() == 0
	})
	var size int64
	if err := r.conn.QueryRow(ctx, `SELECT coalesce(sum(pg_relation_size(oid)), 0)::bigint FROM pg_class
		WHERE relnamespace::regnamespace::text=ANY($1)`, r.schemas).Scan(&size); err != nil {
		t.Fatal(err)
	}
	if r.empty == "" || r.uses == maxUses || size > int64(len(r.schemas))*maxSize || t.Failed() {
		if err := r.drop(ctx); err != nil {
			t.Error(err)
		}
		return
	}
	if _, err := r.conn.Exec(ctx, r.empty, pgx.QueryExecModeSimpleProtocol); err != nil { // in one transaction
		t.Fatal(err)
	}
	free.mu.Lock()
	defer free.mu.Unlock()
	free.rooms[len(r.schemas)] = append(free.rooms[len(r.schemas)], r)
}

// drop drops the schemas.
func (r *rooms) drop(ctx context.Context) error {
	r.kept.close()
	_, err := r.conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+strings.Join(r.schemas, ", ")+" CASCADE")
	_ = r.conn.Close(ctx) // it is not used any more
	return err
}

// dropRooms drops what no test uses any more, on a server that outlives the tests.
func dropRooms() {
	for _, list := range free.rooms {
		for _, r := range list {
			if err := r.drop(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
}
