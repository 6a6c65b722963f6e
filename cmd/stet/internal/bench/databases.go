package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

const (
	mostDatabases = 3
	// serverRate bounds what a server is told, in bytes a second: so much less than what this machine can do
	// that the servers are what bounds throughput, as if each was a machine of its own.
	serverRate = 512 << 10
)

// measureDatabases measures throughput over one, two and three databases. Each is a schema of the same server, and is
// reached by a way of its own that passes so many bytes a second to the server.
func measureDatabases(ctx context.Context, cfg *Config, r *Report) (err error) {
	if cfg.Postgres == "" || cfg.OpenVia == nil {
		return nil // of "all" on a store without a Postgres server of its own
	}
	out := r.section("databases", "%d runs x %d steps, %d at a time, %d KiB/s to each server", cfg.Runs, cfg.Steps,
		cfg.Concurrency, serverRate>>10)
	var one float64
	for n := 1; n <= mostDatabases; n++ {
		rate, err := throughputOver(ctx, cfg, n)
		if err != nil {
			return fmt.Errorf("%d databases: %w", n, err)
		}
		out.figure(fmt.Sprintf("%d databases", n), rate, "runs/s")
		switch n {
		case 1:
			one = rate
		case 2:
			out.atLeast("2 databases over one", rate/one, 1.8, "times")
		case 3:
			out.atLeast("3 databases over one", rate/one, 2.6, "times")
		}
	}
	return nil
}

// throughputOver executes the runs on a new store over so many databases, and deletes it.
func throughputOver(ctx context.Context, cfg *Config, n int) (runs float64, err error) {
	var schemas, addresses []string
	defer func() { err = errors.Join(err, dropSchemas(ctx, cfg.Postgres, schemas)) }()
	for i := range n {
		at, err := url.Parse(cfg.Postgres)
		if err != nil {
			return 0, err
		}
		way, err := newDistance(at.Host, 0, serverRate)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, way.close()) }()
		schema := fmt.Sprintf("stet_bench_%s_%d", strings.ToLower(rand.Text()[:8]), i)
		q := at.Query()
		q.Set("stet_schema", schema)
		at.Host, at.RawQuery = way.addr(), q.Encode()
		schemas, addresses = append(schemas, schema), append(addresses, at.String())
	}
	several := *cfg
	several.Open = func(ctx context.Context) (store.Store, error) { return cfg.OpenVia(ctx, addresses...) }
	w := sequence(cfg.Steps)
	s, err := several.serve(ctx, nil, w)
	if err != nil {
		return 0, err
	}
	err = s.closing(ctx, func(ctx context.Context) error {
		if err := warmUp(ctx, s, w); err != nil {
			return err
		}
		runs, err = executeRuns(ctx, cfg, s, w)
		return err
	})
	return runs, err
}

// dropSchemas deletes what a measurement has made.
func dropSchemas(ctx context.Context, dsn string, schemas []string) error {
	ctx = context.WithoutCancel(ctx)
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return err
	}
	delete(cfg.RuntimeParams, "stet_schema")
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	for _, schema := range schemas {
		_, dropped := conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		err = errors.Join(err, dropped)
	}
	return errors.Join(err, conn.Close(ctx))
}
