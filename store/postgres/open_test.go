package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

func TestOpenRefusesWrongInput(t *testing.T) {
	for name, c := range map[string]struct {
		dsn string
		opt postgres.Option
	}{
		"an address":        {"postgres://%zz", postgres.Conns(4)},
		"a schema":          {"", postgres.Schema(`x"; DROP`)},
		"no schema":         {"", postgres.Schema("")},
		"a schema in dsn":   {"postgres://h/d?stet_schema=A", postgres.Conns(4)},
		"no slots":          {"", postgres.Slots(0)},
		"too many slots":    {"", postgres.Slots(1 << 17)},
		"too few to listen": {"", postgres.Conns(1)},
	} {
		if _, err := postgres.Open(t.Context(), c.dsn, c.opt); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := postgres.Open(t.Context(),
		"host=127.0.0.1 port=1 user=x password=secret connect_timeout=2"); !errors.Is(err, store.ErrUnavailable) ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("nobody there: got %v", err)
	}
}

// TestSettings: what would lose acknowledgements is refused, unless it is asked for,
// and then said.
func TestSettings(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	server := servers.NewPostgres(t)
	s := open(t, server.DSN())
	if d := describe(t, s); !strings.Contains(d.Durable, "nothing lost") || d.Slots != 256 || d.Kind != "postgres" ||
		d.Schema == 0 {
		t.Errorf("got %+v", d)
	}
	for _, setting := range []string{"synchronous_commit=off", "full_page_writes=off", "fsync=off"} {
		name, _, _ := strings.Cut(setting, "=")
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		server.Set(setting)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := postgres.Open(t.Context(), server.DSN()); !errors.Is(err, store.ErrInvalid) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", setting, err)
		}
		if d := describe(t, open(t, server.DSN(), postgres.AllowLoss())); !strings.Contains(d.Durable, setting) ||
			!strings.Contains(d.Durable, "may take back") {
			t.Errorf("%s: told %q", setting, d.Durable)
		}
	}
}

func describe(t testing.TB, s *postgres.Store) store.Description {
	t.Helper()
	d, err := s.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestManyOpenAtOnce: of several processes that find no schema one makes it, and the
// others use it. The number of slots is the first one's.
func TestManyOpenAtOnce(t *testing.T) {
	dsn, schema := servers.SharedPostgres(t)
	ids := make(chan string, 8)
	var group sync.WaitGroup
	for range cap(ids) {
		group.Go(func() {
			s, err := postgres.Open(context.Background(), dsn, postgres.Schema(schema), postgres.AllowLoss(), postgres.Slots(16))
			if err != nil {
				t.Error(err)
				return
			}
			ids <- describe(t, s).ID
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	close(ids)
	first := <-ids
	for id := range ids {
		if id != first || id == "" {
			t.Errorf("there are two stores: %s and %s", first, id)
		}
	}
	if d := describe(t, open(t, dsn, postgres.Schema(schema), postgres.AllowLoss(), postgres.Slots(99))); d.Slots != 16 {
		t.Errorf("the store has %d slots", d.Slots)
	}
}

// TestSchemaIsChecked: a schema that this binary does not know is refused.
func TestSchemaIsChecked(t *testing.T) {
	dsn, schema := servers.SharedPostgres(t)
	opts := []postgres.Option{postgres.Schema(schema), postgres.AllowLoss()}
	if status, err := postgres.ReadSchema(t.Context(), dsn, opts...); err != nil || status.Store != 0 ||
		status.Latest == 0 {
		t.Errorf("got %+v: %v", status, err)
	}
	latest := describe(t, open(t, dsn, opts...)).Schema
	if status, err := postgres.ReadSchema(t.Context(), dsn, opts...); err != nil || status.Store != latest ||
		status.Latest != latest {
		t.Errorf("got %+v: %v", status, err)
	}
	c := application(t, dsn)
	table := pgx.Identifier{schema, "migrations"}.Sanitize()
	for name, change := range map[string][2]string{
		"a newer one that needs a newer binary": {"INSERT INTO " + table + " VALUES (99, 'x', 'x', 99, 0)", "DELETE FROM " +
			table + " WHERE number=99"},
		"one with another text": {"UPDATE " + table + " SET sum='x'||sum", "UPDATE " + table + " SET sum=substr(sum, 2)"},
	} {
		if _, err := c.Exec(t.Context(), change[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := postgres.Open(t.Context(), dsn, opts...); !errors.Is(err, store.ErrSchema) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := c.Exec(t.Context(), change[1]); err != nil {
			t.Fatal(err)
		}
	}
	// One that is newer and may be used by this binary, as in a rolling deploy.
	if _, err := c.Exec(t.Context(), "INSERT INTO "+table+" VALUES ($1, 'x', 'x', 1, 0)", latest+1); err != nil {
		t.Fatal(err)
	}
	if d := describe(t, open(t, dsn, opts...)); d.Schema != latest+1 {
		t.Errorf("the schema is %d", d.Schema)
	}
}

// TestDoctor finds nothing in a store that was used, and what was broken by hand.
func TestDoctor(t *testing.T) {
	s, dsn, schema := fresh(t)
	n := takeAll(t, s, "n")
	r := n.started(t, "r")
	n.commit(t, &store.Turn{Run: r.No, Shard: shard, Entries: []store.Entry{done("a")},
		Tags:    []store.Pair{{Key: "k", Value: "v"}},
		Appends: []store.Append{{Name: "s", Value: []byte("1")}}, Update: &store.Update{Status: store.Succeeded}})
	bad := func() (what []string) {
		findings, err := s.Doctor(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings[1:] { // the first is about the server, which is fast
			if !f.OK {
				what = append(what, f.What)
			}
		}
		return what
	}
	if found := bad(); len(found) != 0 {
		t.Errorf("found %q", found)
	}
	c := application(t, dsn)
	for _, text := range []string{"UPDATE %.entries SET size=7", "DELETE FROM %.tags", "UPDATE %.runs SET ended=0",
		"DELETE FROM %.streams"} {
		if _, err := c.Exec(t.Context(), strings.ReplaceAll(text, "%", schema)); err != nil {
			t.Fatal(err)
		}
	}
	if found := bad(); len(found) != 4 {
		t.Errorf("found %q", found)
	}
}

// TestDoctorNamesAnOpenTransaction: somebody's snapshot keeps the server from removing dead
// rows. One that has just begun is none of the doctor's business.
func TestDoctorNamesAnOpenTransaction(t *testing.T) {
	t.Parallel()
	server := newFeigned(t) // sessions of other databases are not seen
	find := func(limit time.Duration) (f postgres.Finding) {
		t.Helper()
		s := open(t, server.DSN(), postgres.AllowLoss(), postgres.SnapshotLimit(limit))
		findings, err := s.Doctor(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return findings[len(findings)-1]
	}
	if f := find(0); !f.OK {
		t.Errorf("without a transaction: %+v", f)
	}
	c := application(t, server.DSN())
	for _, text := range []string{"SET application_name='monthly report'", "BEGIN ISOLATION LEVEL REPEATABLE READ",
		"SELECT 1"} {
		if _, err := c.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if f := find(time.Hour); !f.OK {
		t.Errorf("with one that has just begun: %+v", f)
	}
	if f := find(0); f.OK || !strings.Contains(f.Detail, "monthly report") {
		t.Errorf("with one that is open for long: %+v", f)
	}
}
