package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

// openDirect finds the way around the pooler, if there is one: the way that the caller has named, or the pooler itself
// if it leaves each client its session.
func openDirect(ctx context.Context, s *Store) error {
	switch {
	case !s.pooled:
		return nil
	case s.cfg.direct == "":
		s.hint.listen = !s.cfg.pooled && leavesSessions(ctx, s)
		return nil
	}
	config, err := pgx.ParseConfig(s.cfg.direct)
	if err != nil {
		return fmt.Errorf("%w: Direct: the address of the server: %w", store.ErrInvalid, err)
	}
	delete(config.RuntimeParams, schemaParam)
	prepareDial(config, s.log)
	conn, err := s.cfg.connect(ctx, config)
	if err != nil {
		return fmt.Errorf("Direct: %w", err)
	}
	if err := errors.Join(checkDirect(ctx, s, conn), conn.Close(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	s.hint.listen, s.hint.config = true, config
	return nil
}

// checkDirect refuses another server than that of the store.
func checkDirect(ctx context.Context, s *Store, conn *pgx.Conn) error {
	var pid uint32
	var standby bool
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid(), pg_is_in_recovery()", pgx.QueryExecModeExec).Scan(&pid, &standby)
	switch {
	case err != nil:
		return fmt.Errorf("Direct: %w", err)
	case pid != conn.PgConn().PID():
		return fmt.Errorf("%w: Direct: expected the address of the server itself, found that of a pooler", store.ErrInvalid)
	case standby:
		return fmt.Errorf("%w: Direct: expected the primary, which the pooler leads to, found a standby", store.ErrInvalid)
	}
	var id string
	err = conn.QueryRow(ctx, s.sql("SELECT value FROM stet.meta WHERE key='id'"), pgx.QueryExecModeExec).Scan(&id)
	switch code := sqlState(err); {
	case code == "42P01" || code == "3F000" || errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: Direct: expected the store of schema %s, which the pooler leads to, found none there",
			store.ErrInvalid, s.schema)
	case err != nil:
		return fmt.Errorf("Direct: %w", err)
	case strings.TrimSpace(id) != s.id:
		return fmt.Errorf("%w: Direct: expected the store %s, which the pooler leads to, found the store %s",
			store.ErrInvalid, s.id, id)
	}
	return nil
}

// leavesSessions reports whether a pooler leaves each client the session that it has got, as PgBouncer does in session
// mode. Only such a client hears a notification while it asks for nothing: in transaction mode it has no session then.
func leavesSessions(ctx context.Context, s *Store) bool {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	leaves, err := hears(ctx, s)
	if err != nil && ctx.Err() == nil {
		s.log.DebugContext(ctx, "it is not known whether the pooler leaves clients their sessions", "error", err)
	}
	return leaves && err == nil
}

// hears notifies a connection through the pooler by another one.
func hears(ctx context.Context, s *Store) (heard bool, err error) {
	var conns [2]*pgx.Conn
	var pids [3]int64
	for i := range pids {
		c := conns[i%2]
		if c == nil {
			if c, err = s.hint.connect(ctx, s.hint.config); err != nil {
				return false, err
			}
			defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // it has only asked
			conns[i%2] = c
		}
		if err := c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pids[i]); err != nil {
			return false, err
		}
	}
	if pids[0] == pids[1] || pids[0] != pids[2] {
		return false, nil // in transaction mode this mostly shows without a wait
	}
	channel := "stet_" + strings.ToLower(rand.Text())
	if _, err := conns[0].Exec(ctx, "LISTEN "+channel, pgx.QueryExecModeExec); err != nil {
		return false, err
	}
	if _, err := conns[1].Exec(ctx, "NOTIFY "+channel, pgx.QueryExecModeExec); err != nil {
		return false, err
	}
	rest, cancel := context.WithTimeout(ctx, hearLimit)
	defer cancel()
	_, err = conns[0].WaitForNotification(rest)
	if rest.Err() != nil {
		return false, ctx.Err()
	}
	return err == nil, err
}

// hearLimit is how long a notification may take. One that is later only costs what a session is for.
const hearLimit = time.Second
