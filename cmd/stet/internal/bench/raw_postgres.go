package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// rawPostgres is the table in Postgres. Rows are sent as arrays, one for each
// column, in one statement.
type rawPostgres struct {
	rawRows
	ctx     context.Context // of the measurement
	conn    *pgx.Conn
	columns struct {
		runs, values [][]byte
		paths        []string
		a, b, c      []int64
	}
}

// rawTableName is the table's; it is created again for each measurement.
const rawTableName = "stet_bench_raw"

func openRawPostgres(ctx context.Context, dsn string) (rawDriver, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	delete(cfg.RuntimeParams, "stet_schema")
	t := &rawPostgres{ctx: ctx, rawRows: newRawRows()}
	if t.conn, err = pgx.ConnectConfig(ctx, cfg); err != nil {
		return nil, err
	}
	_, err = t.conn.Exec(ctx, fmt.Sprintf(`DROP TABLE IF EXISTS %[1]s;
		CREATE TABLE %[1]s (run bytea NOT NULL, path text NOT NULL, value bytea NOT NULL,
		a bigint NOT NULL, b bigint NOT NULL, c bigint NOT NULL, PRIMARY KEY (run, path))`, rawTableName))
	if err != nil {
		return nil, errors.Join(err, t.conn.Close(ctx))
	}
	return t, nil
}

func (t *rawPostgres) close() error {
	ctx := context.WithoutCancel(t.ctx)
	_, err := t.conn.Exec(ctx, "DROP TABLE "+rawTableName)
	return errors.Join(err, t.conn.Close(ctx))
}

func (t *rawPostgres) commitRows(n int) error {
	c := &t.columns
	c.runs, c.values, c.paths, c.a, c.b, c.c = c.runs[:0], c.values[:0], c.paths[:0], c.a[:0], c.b[:0], c.c[:0]
	for range n {
		c.paths = append(c.paths, t.next())
		c.runs, c.values = append(c.runs, slices.Clone(t.run[:])), append(c.values, t.value)
		c.a, c.b, c.c = append(c.a, int64(t.rows)), append(c.b, 1), append(c.c, int64(t.rows)<<20)
	}
	_, err := t.conn.Exec(t.ctx, "INSERT INTO "+rawTableName+
		` SELECT * FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[])`,
		c.runs, c.paths, c.values, c.a, c.b, c.c)
	return err
}
