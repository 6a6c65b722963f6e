package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/stettest/enginetest"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
	"github.com/stet-run/stet/store/storetest"
)

// wideSlots is how many slots the stores of these tests have.
const wideSlots = 7

// schemasOf returns addresses of so many schemas of one database, which stand for databases.
func schemasOf(t testing.TB, n int) (dsns, schemas []string) {
	t.Helper()
	dsn, schema := servers.SharedPostgres(t)
	for i := range n {
		name := fmt.Sprint(schema, "_", i)
		dsns, schemas = append(dsns, with(dsn, "stet_schema", name)), append(schemas, name)
	}
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), dsn)
		if err != nil {
			t.Error(err)
			return
		}
		for _, name := range schemas {
			if _, err := conn.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+name+" CASCADE"); err != nil {
				t.Error(err)
			}
		}
		_ = conn.Close(context.Background())
	})
	return dsns, schemas
}

// wideHarness opens handles on a store over several schemas.
type wideHarness struct {
	dsns, schemas []string
	opts          []postgres.Option
	first         *postgres.Wide
}

func newWideHarness(t testing.TB, clock func() time.Time, n int, opts ...postgres.Option) *wideHarness {
	t.Helper()
	r := roomsOf(t, n)
	h := &wideHarness{schemas: r.schemas, opts: append(opts, postgres.Clock(clock), postgres.AllowLoss(),
		postgres.Conns(2), postgres.Patient(), postgres.Slots(wideSlots), r.kept.option())}
	for _, schema := range r.schemas {
		h.dsns = append(h.dsns, with(r.dsn, "stet_schema", schema))
	}
	h.first = h.open(t)
	if r.empty != "" {
		return h
	}
	// The numbers are given in the order of the acts, as the checks compare them with those of
	// store/memory.
	for _, table := range [][2]string{{"runs", "run_no"}, {"inbox", "item_no"}} {
		for _, schema := range h.schemas[1:] {
			h.exec(t, fmt.Sprintf("ALTER TABLE %s.%s ALTER %s DROP IDENTITY", schema, table[0], table[1]))
			h.exec(t, fmt.Sprintf("ALTER TABLE %s.%s ALTER %s SET DEFAULT nextval('%s.%s_%s_seq')", schema, table[0],
				table[1], h.schemas[0], table[0], table[1]))
		}
	}
	r.made(t)
	return h
}

func (h *wideHarness) exec(t testing.TB, texts ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), h.dsns[0][:strings.LastIndexAny(h.dsns[0], "? ")])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, text := range texts {
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatal(text, err)
		}
	}
}

func (h *wideHarness) open(t testing.TB) *postgres.Wide {
	t.Helper()
	w, err := postgres.OpenAll(t.Context(), h.dsns, h.opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (h *wideHarness) First() store.Store { return h.first }

func (h *wideHarness) Join(t testing.TB) store.Store { return h.open(t) }

// Kill closes the handle: the leases stay.
func (h *wideHarness) Kill(t testing.TB, s store.Store) bool {
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return false
}

// Save copies the tables of all databases, and restores them under open handles.
func (h *wideHarness) Save(t testing.TB) (restore func() store.Store) {
	conn, err := pgx.Connect(t.Context(), h.dsns[0][:strings.LastIndexAny(h.dsns[0], "? ")])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(sql, err)
		}
	}
	tables := map[string][]string{}
	for _, schema := range h.schemas {
		rows, err := conn.Query(t.Context(), "SELECT tablename::text FROM pg_tables WHERE schemaname=$1 ORDER BY 1", schema)
		if err != nil {
			t.Fatal(err)
		}
		if tables[schema], err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			t.Fatal(err)
		}
		exec("CREATE SCHEMA " + schema + "_copy")
		t.Cleanup(func() { _, _ = conn.Exec(context.Background(), "DROP SCHEMA "+schema+"_copy CASCADE") })
		for _, table := range tables[schema] {
			exec("CREATE TABLE " + schema + "_copy." + table + " AS TABLE " + schema + "." + table)
		}
	}
	return func() store.Store {
		exec("BEGIN")
		exec("SET LOCAL session_replication_role=replica") // the rows have their numbers
		for schema, names := range tables {
			for _, table := range names {
				exec("DELETE FROM " + schema + "." + table)
				exec("INSERT INTO " + schema + "." + table + " OVERRIDING SYSTEM VALUE SELECT * FROM " + schema + "_copy." + table)
			}
		}
		exec("COMMIT")
		return h.first
	}
}

// TestWideContract checks a store over two and three databases against the contract and against store/memory.
func TestWideContract(t *testing.T) {
	t.Parallel()
	for i, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			contract(t, storetest.Spread(func(t *testing.T, clock func() time.Time) storetest.Harness {
				return newWideHarness(t, clock, n, postgres.RestAt(1))
			}, wideSlots), 1+i)
		})
	}
}

// TestWideEngine puts the engine on a store over three databases through what users rely on; under STET_SOAK on one
// over two as well.
func TestWideEngine(t *testing.T) {
	t.Parallel()
	sizes := []int{3}
	if soak.On() {
		sizes = []int{2, 3}
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			share, shares := 0, 1
			if !soak.Usual(t) {
				share, shares = soak.Part(t, 0, soak.Week), soak.Week
			}
			enginetest.RunShare(t, func(t testing.TB) func() store.Store {
				h := newWideHarness(t, time.Now, n)
				return func() store.Store { return h.open(t) }
			}, share, shares)
		})
	}
}

// hiding is a wrapper that hides the lanes of a store.
type hiding struct{ store.Store }

// An engine refuses a wrapper that hides the databases of a store, and says what to do.
func TestAWrapperThatHidesDatabasesIsRefused(t *testing.T) {
	t.Parallel()
	dsns, _ := schemasOf(t, 2)
	w := openAll(t, dsns, postgres.AllowLoss(), postgres.Slots(4))
	_, err := stet.New(t.Context(), stet.Config{Store: hiding{w}})
	for _, says := range []string{"2 lanes", "hiding", "store.Laned", "WrapLanes"} {
		if !errors.Is(err, stet.ErrInvalid) || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%v; want %q in it", err, says)
		}
	}
	e, err := stet.New(t.Context(), stet.Config{Store: w, Observer: &stet.Observer{StoreError: func(string, error) {}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
}
