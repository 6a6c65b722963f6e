package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
	"github.com/stet-run/stet/store/storetest"
)

// harness opens handles on one schema, as several processes would have.
type harness struct {
	dsn    string
	schema string
	opts   []postgres.Option
	first  *postgres.Store
}

func newHarness(t testing.TB, clock func() time.Time, opts ...postgres.Option) *harness {
	t.Helper()
	return newHandles(t, append(opts, postgres.Clock(clock), postgres.Conns(2), postgres.Patient())...)
}

// newHandles is newHarness at the server's time, with the usual number of connections.
func newHandles(t testing.TB, opts ...postgres.Option) *harness {
	t.Helper()
	r := roomsOf(t, 1)
	h := &harness{dsn: r.dsn, schema: r.schemas[0], opts: append([]postgres.Option{postgres.Schema(r.schemas[0]),
		postgres.AllowLoss(), r.kept.option()}, opts...)}
	h.first = h.open(t)
	if r.empty == "" {
		r.made(t)
	}
	return h
}

// fresh opens an empty store on the shared server. dsn is for other sessions, which end before the test does.
func fresh(t testing.TB, opts ...postgres.Option) (s *postgres.Store, dsn, schema string) {
	t.Helper()
	h := newHandles(t, opts...)
	return h.first, h.dsn, h.schema
}

func (h *harness) open(t testing.TB) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), h.dsn, h.opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (h *harness) First() store.Store { return h.first }

func (h *harness) Join(t testing.TB) store.Store { return h.open(t) }

// Kill closes the handle: the leases stay, and no other process knows that their owner is
// dead.
func (h *harness) Kill(t testing.TB, s store.Store) bool {
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return false
}

// Save copies all tables beside the store's, and restores them under open handles.
func (h *harness) Save(t testing.TB) (restore func() store.Store) {
	conn, err := pgx.Connect(t.Context(), h.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	list := func(sql string) []string {
		rows, err := conn.Query(t.Context(), sql, h.schema)
		if err != nil {
			t.Fatal(err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		return names
	}
	tables := list("SELECT tablename::text FROM pg_tables WHERE schemaname=$1 ORDER BY 1")
	exec := func(sql string) {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(sql, err)
		}
	}
	copied := h.schema + "_copy"
	exec("CREATE SCHEMA " + copied)
	t.Cleanup(func() { _, _ = conn.Exec(context.Background(), "DROP SCHEMA "+copied+" CASCADE") })
	for _, table := range tables {
		exec("CREATE TABLE " + copied + "." + table + " AS TABLE " + h.schema + "." + table)
	}
	return func() store.Store {
		exec("BEGIN")
		for _, table := range tables {
			exec("DELETE FROM " + h.schema + "." + table)
			exec("INSERT INTO " + h.schema + "." + table + " OVERRIDING SYSTEM VALUE SELECT * FROM " + copied + "." + table)
		}
		exec("COMMIT")
		return h.first
	}
}

// TestContract checks the store against the contract and against store/memory, a quick run with half of the random
// operations. Each item that makes no run ready is put to rest at once, here and below.
func TestContract(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, clock func() time.Time) storetest.Harness {
		return newHarness(t, clock, postgres.RestAt(1))
	}
	if soak.Usual(t) {
		storetest.Run(t, open)
	} else {
		storetest.RunPart(t, open, soak.Part(t, 0, 2), 2)
	}
}

// TestContractTurnByTurn checks what the function in the database leaves to the
// store, for all batches: the laws of commits and random operations.
func TestContractTurnByTurn(t *testing.T) {
	t.Parallel()
	contract(t, func(t *testing.T, clock func() time.Time) storetest.Harness {
		return newHarness(t, clock, postgres.TurnByTurn(), postgres.RestAt(1))
	}, 0)
}

// contract checks one of the further settings. Below the usual number of cases each takes a part of its own, and
// another one each day.
func contract(t *testing.T, open storetest.Open, setting int) {
	if soak.Usual(t) {
		storetest.Run(t, open)
		return
	}
	storetest.RunShare(t, open, soak.Part(t, setting, soak.Week), soak.Week)
}
