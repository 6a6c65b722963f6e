package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// ApplyTx carries out commands in a transaction on the same database that the
// caller has begun with pgx, and that the caller commits or rolls back. With an
// error nothing of the commands is in the transaction. Runs are not claimed; their owner
// notices the commands after the commit, at the latest when it next polls.
func (s *Store) ApplyTx(ctx context.Context, t pgx.Tx, commands []store.Command) ([]store.Answer, error) {
	return s.applyTx(pgxQuerier{ctx, t, s}, commands)
}

var _ store.Transactor[pgx.Tx] = (*Store)(nil)

var _ store.Transactors = (*Store)(nil)

// TransactorAs implements store.Transactors: the Store knows pgx.Tx, and *sql.Tx of
// any driver for Postgres.
func (s *Store) TransactorAs(target any) bool {
	switch t := target.(type) {
	case *store.Transactor[*sql.Tx]:
		*t = sqlTransactor{s}
	case *store.Recorder[*sql.Tx]:
		*t = sqlTransactor{s}
	default:
		return false
	}
	return true
}

type sqlTransactor struct{ s *Store }

// ApplyTx implements store.Transactor.
func (t sqlTransactor) ApplyTx(ctx context.Context, tx *sql.Tx, commands []store.Command) ([]store.Answer, error) {
	return t.s.applyTx(sqlQuerier{ctx, tx, t.s}, commands)
}

func (s *Store) applyTx(q querier, commands []store.Command) ([]store.Answer, error) {
	if s.closed.Load() {
		return nil, s.gone()
	}
	if err := storekit.ValidateCommands(commands); err != nil {
		return nil, err
	}
	if _, err := q.exec("SAVEPOINT stet"); err != nil {
		return nil, fmt.Errorf("apply commands: %w", err)
	}
	answers, err := s.applyIn(q, commands)
	if err != nil {
		_, undoErr := q.exec("ROLLBACK TO SAVEPOINT stet")
		_, endErr := q.exec("RELEASE SAVEPOINT stet")
		return nil, fmt.Errorf("apply commands: %w", errors.Join(err, undoErr, endErr))
	}
	if _, err := q.exec("RELEASE SAVEPOINT stet"); err != nil {
		return nil, fmt.Errorf("apply commands: %w", err)
	}
	return answers, nil
}

func (s *Store) applyIn(q querier, commands []store.Command) ([]store.Answer, error) {
	var there bool
	var id string
	if _, err := q.row("SELECT to_regclass($1) IS NOT NULL", []any{s.sql("stet.meta")}, &there); err != nil {
		return nil, err
	}
	if there {
		if _, err := q.row("SELECT value FROM stet.meta WHERE key='id'", nil, &id); err != nil {
			return nil, err
		}
	}
	if id != s.id {
		return nil, fmt.Errorf("%w: expected a transaction on the database whose schema %s has the store %s; found %q",
			store.ErrInvalid, s.schema, s.id, id)
	}
	floor, test := s.times()
	var now int64
	if _, err := q.row("SELECT "+nowExpr, []any{floor, test}, &now); err != nil {
		return nil, err
	}
	return s.applyAll(q, store.Time(now), commands)
}

// pgxQuerier executes statements in a caller's transaction of pgx.
type pgxQuerier struct {
	ctx context.Context // of the one call
	tx  pgx.Tx
	s   *Store
}

func (q pgxQuerier) exec(text string, args ...any) (int64, error) {
	tag, err := q.tx.Exec(q.ctx, q.s.sql(text), plain(args)...)
	return tag.RowsAffected(), err
}

func (q pgxQuerier) row(text string, args []any, dest ...any) (bool, error) {
	err := q.tx.QueryRow(q.ctx, q.s.sql(text), plain(args)...).Scan(dest...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// sqlQuerier executes statements in a caller's transaction of database/sql.
type sqlQuerier struct {
	ctx context.Context // of the one call
	tx  *sql.Tx
	s   *Store
}

func (q sqlQuerier) exec(text string, args ...any) (int64, error) {
	result, err := q.tx.ExecContext(q.ctx, q.s.sql(text), plain(args)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (q sqlQuerier) row(text string, args []any, dest ...any) (bool, error) {
	err := q.tx.QueryRowContext(q.ctx, q.s.sql(text), plain(args)...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
