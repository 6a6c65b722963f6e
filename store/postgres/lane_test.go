package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestReadersLeaveTheNodeAlone uses all connections of readers. Leases, heartbeats, claims
// and commits of both kinds do not wait for them.
func TestReadersLeaveTheNodeAlone(t *testing.T) {
	t.Parallel()
	s, _, _ := fresh(t)
	n := takeAll(t, s, "n")
	r := n.started(t, "r")
	postgres.HoldReaders(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := s.Register(ctx, n.node)
	_, _, renewErr := s.Renew(ctx, n.leases, ttl)
	_, describeErr := s.Describe(ctx)
	_, claimErr := s.Claim(ctx, store.ClaimRequest{Node: n.node.ID, Boot: n.node.Boot, Leases: n.leases, Limit: 10})
	_, commitErr := s.Commit(ctx, n.batch([]*store.Turn{{Run: r.No, Shard: shard, Entries: []store.Entry{done("a")},
		Values: []store.Setting{{Name: "v"}}}}))
	if err := errors.Join(err, renewErr, describeErr, claimErr, commitErr); err != nil {
		t.Error(err)
	}
}

// TestWaitersLeaveReadersAlone starts a run many times while a transaction of the
// application has started it and stays open: they wait, and readers do not.
func TestWaitersLeaveReadersAlone(t *testing.T) {
	t.Parallel()
	s, dsn, schema := fresh(t, postgres.Conns(5))
	f := withPgx(t, s, dsn)
	if _, err := f.apply([]store.Command{start("r")}); err != nil {
		t.Fatal(err)
	}
	var starters sync.WaitGroup
	var ended atomic.Int64
	for i := range 10 {
		starters.Go(func() {
			c := start("r")
			c.Start.Seed = store.Seed([]byte(fmt.Sprintf("%016d", i)))
			answers, _, err := s.Apply(t.Context(), []store.Command{c})
			ended.Add(1)
			if err != nil || answers[0].Outcome == store.Applied {
				t.Errorf("a start: %+v, %v", answers, err)
			}
		})
	}
	watcher := application(t, dsn)
	servers.Until(t, "a start waits", func() bool {
		var waits int
		if err := watcher.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type='Lock' AND query LIKE '%'||$1||'".runs%'`, schema).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits == 1 // all have been tried; one of them has a connection
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for range 20 {
		if _, err := s.List(ctx, store.Filter{}); err != nil {
			t.Fatal(err)
		}
	}
	if ended.Load() > 0 {
		t.Error("a start did not wait")
	}
	if err := f.commit(); err != nil {
		t.Fatal(err)
	}
	starters.Wait()
}

// TestBeforeConnect gives each connection its password, or refuses it.
func TestBeforeConnect(t *testing.T) {
	t.Parallel()
	dsn, schema := servers.SharedPostgres(t)
	var names sync.Map
	s := open(t, dsn, postgres.Schema(schema), postgres.AllowLoss(),
		postgres.BeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
			name := fmt.Sprint(schema, " ", time.Now().UnixNano())
			c.RuntimeParams["application_name"] = name
			names.Store(name, true)
			return nil
		}))
	n := takeAll(t, s, "n")
	n.started(t, "r")
	listen(t, s)
	rows, err := application(t, dsn).Query(t.Context(),
		"SELECT application_name FROM pg_stat_activity WHERE query LIKE '%'||$1||'%' AND pid<>pg_backend_pid()", schema)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(found) < 2 {
		t.Fatalf("found the connections %q: %v", found, err)
	}
	for _, name := range found {
		if _, ok := names.Load(name); !ok {
			t.Errorf("the connection %q was made without a call", name)
		}
	}
	refused := errors.New("no password")
	_, err = postgres.Open(t.Context(), dsn, postgres.Schema(schema), postgres.AllowLoss(),
		postgres.BeforeConnect(func(context.Context, *pgx.ConnConfig) error { return refused }))
	if !errors.Is(err, refused) {
		t.Errorf("a refused connection: %v", err)
	}
}

// TestServerClockSetBack sets the server's clock an hour back: time goes on, and does not
// stand still for an hour.
func TestServerClockSetBack(t *testing.T) {
	t.Parallel()
	dsn, schema := servers.SharedPostgres(t)
	admin := application(t, dsn)
	clock := func(offset string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), fmt.Sprintf(`CREATE SCHEMA IF NOT EXISTS %[1]s_clock;
			CREATE OR REPLACE FUNCTION %[1]s_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
			$$ SELECT pg_catalog.clock_timestamp() + interval '%[2]s' $$`, schema, offset)); err != nil {
			t.Fatal(err)
		}
	}
	clock("1 hour")
	s := open(t, fmt.Sprintf("%s search_path=%s_clock,pg_catalog", dsn, schema), postgres.Schema(schema),
		postgres.AllowLoss())
	now := func() store.Time {
		t.Helper()
		d, err := s.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d.Now
	}
	ahead := now()
	if ahead < store.TimeOf(time.Now().Add(50*time.Minute)) {
		t.Fatalf("the server's clock is not set: %s", ahead)
	}
	clock("0")
	begun := time.Now() // before the store is asked, which may take its time
	back := now()
	servers.Until(t, "time goes on", func() bool {
		if now() < back {
			t.Fatal("time went back")
		}
		return now() >= back.Add(200*time.Millisecond)
	})
	if passed := time.Since(begun); back < ahead || passed < 200*time.Millisecond {
		t.Errorf("200 ms of the store have passed in %s, from %s and %s", passed, ahead, back)
	}
}
