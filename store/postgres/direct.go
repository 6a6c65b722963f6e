package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

// openDirect finds the way around the pooler, if there is a pooler and the caller has named a way.
func openDirect(ctx context.Context, s *Store) error {
	if !s.pooled || s.cfg.direct == "" {
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
