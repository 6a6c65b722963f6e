package postgres_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/internal/testing/servers"
)

// database is a database of the shared server that no other test uses. No session, transaction or lock of others is in
// it. Its methods are those of servers.Postgres.
type database struct {
	name, addr string
	dsn        string
}

// newDatabase makes a database, which is dropped when the test ends.
func newDatabase(t testing.TB) *database {
	t.Helper()
	dsn, name := servers.SharedPostgres(t)
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(config.Host, "/") {
		config.Host = "127.0.0.1"
	}
	do := func(ctx context.Context, text string) {
		t.Helper()
		conn, err := pgx.Connect(ctx, dsn)
		if err == nil {
			_, err = conn.Exec(ctx, text)
			_ = conn.Close(ctx) // nothing is under way
		}
		if err != nil {
			t.Error(text, err)
		}
	}
	if do(t.Context(), "CREATE DATABASE "+name); t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() { do(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)") })
	return &database{name, net.JoinHostPort(config.Host, fmt.Sprint(config.Port)), with(dsn, "dbname", name)}
}

// DSN returns the address of the database.
func (d *database) DSN() string { return d.dsn }

// Addr returns the host and port of the server.
func (d *database) Addr() string { return d.addr }

// TCP returns the address of the database by way of a host and port.
func (d *database) TCP(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	return with(with(with(d.dsn, "host", host), "port", port), "sslmode", "disable")
}

// feigned is a database that says of the server what the test wants.
type feigned struct{ *database }

// feignText puts functions and tables in front of those of the catalog.
const feignText = `CREATE SCHEMA feigned;
CREATE TABLE feigned.settings (name text PRIMARY KEY, value text NOT NULL);
INSERT INTO feigned.settings VALUES ('fsync', 'on'), ('full_page_writes', 'on'), ('synchronous_commit', 'on');
INSERT INTO feigned.settings VALUES ('timeline', '00000001'), ('system', '1'), ('standby', 'off'),
	('start', pg_postmaster_start_time()::text);
CREATE FUNCTION feigned.current_setting(text) RETURNS text LANGUAGE sql STABLE AS
	$$ SELECT coalesce((SELECT value FROM feigned.settings WHERE name=$1), pg_catalog.current_setting($1)) $$;
CREATE FUNCTION feigned.pg_walfile_name(pg_lsn) RETURNS text LANGUAGE sql STABLE AS
	$$ SELECT value||'0000000000000001' FROM feigned.settings WHERE name='timeline' $$;
CREATE FUNCTION feigned.pg_control_system(OUT system_identifier bigint) LANGUAGE sql STABLE AS
	$$ SELECT value::bigint FROM feigned.settings WHERE name='system' $$;
CREATE FUNCTION feigned.pg_is_in_recovery() RETURNS boolean LANGUAGE sql STABLE AS
	$$ SELECT value='on' FROM feigned.settings WHERE name='standby' $$;
CREATE FUNCTION feigned.pg_postmaster_start_time() RETURNS timestamptz LANGUAGE sql STABLE AS
	$$ SELECT value::timestamptz FROM feigned.settings WHERE name='start' $$;
CREATE TABLE feigned.pg_stat_replication (pid integer, application_name text, sync_state text);
CREATE VIEW feigned.pg_stat_activity AS SELECT * FROM pg_catalog.pg_stat_activity WHERE datname=current_database()`

// newFeigned makes a database on a server that looks like one of its own, without a standby: nobody else has a session,
// and it loses nothing.
func newFeigned(t testing.TB) *feigned {
	t.Helper()
	d := newDatabase(t)
	if _, err := application(t, d.dsn).Exec(t.Context(), feignText); err != nil {
		t.Fatal(err)
	}
	d.dsn = with(d.dsn, "search_path", "feigned,pg_catalog")
	return &feigned{d}
}

// feign changes what the database says of a setting of the server, of its timeline, system or start, or of whether it
// is a standby. Sessions that are there learn it when they ask again.
func (f *feigned) feign(t testing.TB, name, value string) {
	t.Helper()
	if _, err := application(t, f.dsn).Exec(t.Context(), `INSERT INTO feigned.settings VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value=excluded.value`, name, value); err != nil {
		t.Fatal(err)
	}
}

// cut ends all other sessions, as those of a server that another one replaces.
func (f *feigned) cut(t testing.TB) {
	t.Helper()
	if _, err := application(t, f.dsn).Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE pid<>pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
}
