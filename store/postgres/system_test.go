package postgres_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestSwitchByLogicalReplication: the rows come to a server of another system, whose sequences are
// at their beginning. Nobody works there until a person has confirmed it; then new runs get new
// numbers, and nobody goes back.
func TestSwitchByLogicalReplication(t *testing.T) {
	soak.Faults(t)
	t.Parallel()
	blue, green := servers.NewPostgres(t, "wal_level=logical"), servers.NewPostgres(t)
	address := servers.NewProxy(t, blue.Addr())
	quiet := postgres.Logger(slog.New(slog.DiscardHandler))
	s := open(t, blue.TCP(address.Addr()), quiet)
	n := takeAll(t, s, "n")
	for _, id := range []string{"a", "b", "c"} {
		n.started(t, id)
	}
	if _, _, err := s.Apply(t.Context(), []store.Command{message("a", "m")}); err != nil {
		t.Fatal(err)
	}
	if err := open(t, green.DSN(), quiet).Close(); err != nil { // which makes the tables
		t.Fatal(err)
	}
	from, to := application(t, blue.DSN()), application(t, green.DSN())
	if _, err := to.Exec(t.Context(), `DO $$ DECLARE t text; BEGIN
		FOR t IN SELECT tablename FROM pg_tables WHERE schemaname='stet' LOOP EXECUTE 'TRUNCATE stet.' || t; END LOOP;
		END $$`); err != nil {
		t.Fatal(err)
	}
	if _, err := from.Exec(t.Context(), "CREATE PUBLICATION p FOR ALL TABLES WITH (publish='insert')"); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Exec(t.Context(), "CREATE SUBSCRIPTION s CONNECTION '"+blue.DSN()+"' PUBLICATION p"); err != nil {
		t.Fatal(err)
	}
	servers.Until(t, "all tables are copied", func() bool {
		var left int
		if err := to.QueryRow(t.Context(),
			"SELECT count(*) FROM pg_subscription_rel WHERE srsubstate<>'r'").Scan(&left); err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
	if _, err := to.Exec(t.Context(), "DROP SUBSCRIPTION s"); err != nil {
		t.Fatal(err)
	}
	address.Target(green.Addr())
	refused := func(want string, act func() error) {
		t.Helper()
		servers.Until(t, "an act is refused with: "+want, func() bool {
			err := act()
			if !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("expected it to be refused, found %v", err)
			}
			return strings.Contains(err.Error(), want) // after those that were cut
		})
	}
	list := func() error { _, err := s.List(t.Context(), store.Filter{}); return err }
	opened := func() error { _, err := postgres.Open(t.Context(), green.DSN(), quiet); return err }
	refused("the store has come to another server", list)
	refused("the store has come to another server", opened)
	if err := postgres.ConfirmFailover(t.Context(), green.DSN(), quiet); err != nil {
		t.Fatal(err)
	}
	answers, _, err := s.Apply(t.Context(), []store.Command{start("d"), message("d", "m")})
	if err != nil || answers[0].Outcome != store.Applied || answers[0].Run.No <= 3 || answers[1].Item <= 1 {
		t.Fatalf("a new run after the switch: %+v, %v", answers, err)
	}
	address.Target(blue.Addr())
	refused("this is a former server", list)
}

// TestSequencesBehind: a copy without the state of sequences is refused by those who open it, and
// found by a doctor.
func TestSequencesBehind(t *testing.T) {
	t.Parallel()
	dsn, schema := servers.SharedPostgres(t)
	options := []postgres.Option{postgres.Schema(schema), postgres.AllowLoss()}
	s := open(t, dsn, options...)
	takeAll(t, s, "n").started(t, "a")
	if _, err := application(t, dsn).Exec(t.Context(),
		"ALTER TABLE "+schema+".runs ALTER COLUMN run_no RESTART WITH 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(t.Context(), dsn, options...); !errors.Is(err, store.ErrDamaged) ||
		!strings.Contains(err.Error(), "runs to be above 1, found 1") {
		t.Errorf("Open gave %v", err)
	}
	findings, err := s.Doctor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bad := 0
	for _, f := range findings {
		if !f.OK && f.What == "new runs and items get new numbers" {
			bad++
		}
	}
	if bad != 1 {
		t.Errorf("the doctor found %+v", findings)
	}
	if err := postgres.ConfirmFailover(t.Context(), dsn, options...); err != nil {
		t.Fatal(err)
	}
	answers, _, err := open(t, dsn, options...).Apply(t.Context(), []store.Command{start("b")})
	if err != nil || answers[0].Outcome != store.Applied {
		t.Errorf("a new run: %+v, %v", answers, err)
	}
}
