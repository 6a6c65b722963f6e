package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/internal/words"
	"github.com/stet-run/stet/store/storekit"
)

var _ store.Transactor[*sql.Tx] = (*Store)(nil)

// ApplyTx implements store.Transactor: it carries out commands in a transaction on the
// same file. The caller begins the transaction with any driver of database/sql, and
// commits it or rolls it back. With an error nothing of the commands is in the
// transaction. A transaction that has read before should be begun as IMMEDIATE: SQLite
// refuses a write after a read that the write of another process has overtaken. Runs are
// not claimed.
func (s *Store) ApplyTx(ctx context.Context, tx *sql.Tx, commands []store.Command) ([]store.Answer, error) {
	if s.closed.Load() {
		return nil, store.ErrClosed
	}
	if err := storekit.ValidateCommands(commands); err != nil {
		return nil, err
	}
	if err := s.refuseStarts(commands); err != nil {
		return nil, err
	}
	q := txQuerier{ctx, tx}
	var id string
	if _, err := q.row("SELECT value FROM stet_meta WHERE key='id'", nil, &id); err != nil || id != s.id {
		return nil, errors.Join(fmt.Errorf("apply commands: %w: expected a transaction on %s, whose store is %s; found %q",
			store.ErrInvalid, s.cfg.path, s.id, id), err)
	}
	if _, err := q.exec("SAVEPOINT stet"); err != nil {
		return nil, err
	}
	answers, err := applyAll(q, s.clock.read(), commands)
	if err != nil {
		_, undoErr := q.exec("ROLLBACK TO stet")
		_, endErr := q.exec("RELEASE stet")
		return nil, fmt.Errorf("apply commands: %w", errors.Join(err, undoErr, endErr))
	}
	if _, err := q.exec("RELEASE stet"); err != nil {
		return nil, fmt.Errorf("apply commands: %w", err)
	}
	return answers, nil
}

// txQuerier executes statements in a caller's transaction.
type txQuerier struct {
	ctx context.Context // of the one call
	tx  *sql.Tx
}

func (q txQuerier) exec(text string, args ...any) (int64, error) {
	result, err := q.tx.ExecContext(q.ctx, words.SQL(text), plain(args)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (q txQuerier) row(text string, args []any, dest ...any) (bool, error) {
	err := q.tx.QueryRowContext(q.ctx, words.SQL(text), plain(args)...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// plain converts arguments to values that every driver knows: nil bytes, which some
// drivers make empty, to NULL, and sqlstore.Bytes to a text.
func plain(args []any) []any {
	for i, arg := range args {
		switch v := arg.(type) {
		case []byte:
			if v == nil {
				args[i] = nil
			}
		case sqlstore.Bytes:
			args[i] = string(v)
		}
	}
	return args
}
