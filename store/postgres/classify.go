package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// What an error of the server says about an act.
//
// An act is the reason only of errors whose code can be about data: what is no text, out of
// range, breaks a constraint, or is larger than the server can keep. Everything else is a
// fault of the server, its machine, its settings or what is between: a disk that fails, a
// file that is missing, a right that was taken, a database that is being restored. Such an
// act waits, and is tried again; otherwise a fault of a second would stall all runs.

// sqlState returns the code of an error of the server, "" for others.
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// beyondDriver reports whether the driver has refused to send a message of more than 1 GB.
func beyondDriver(err error) bool { return strings.Contains(err.Error(), "message body too large") }

// definite reports whether an error proves that the act did not happen: the server has
// answered so and lives, or was sent nothing.
func definite(err error) bool {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Severity != "FATAL" && e.Severity != "PANIC" && !strings.HasPrefix(e.Code, "57P")
	}
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || pgconn.SafeToRetry(err) && !foundClosed(err) || beyondDriver(err)
}

// foundClosed reports whether the driver has found its connection closed. It then says that the act can be tried again.
// It says the same when the connection ends while it waits for the answer to a text without parameters, such as COMMIT:
// pgconn.MultiResultReader drops the error of the read, and tries to read once more.
func foundClosed(err error) bool { return strings.Contains(err.Error(), "conn closed") }

// discard closes the connection after an error that says that the session is not in the
// state that this process believes it is in: a prepared statement is not there (a pooler
// that Open did not recognise) or does not fit its tables any more, or a transaction has
// failed before.
func (t *tx) discard(err error) {
	switch sqlState(err) {
	case "26000", "0A000", "25P02", "42P05":
		_ = t.conn.Close(context.WithoutCancel(t.ctx))
	}
}

// classify gives an error of the server or the driver the contract's class.
func (s *Store) classify(ctx context.Context, act string, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []error{store.ErrUnavailable, store.ErrInvalid, store.ErrClosed, store.ErrBadCursor,
		store.ErrSchema, store.ErrDamaged, store.ErrWentBack} {
		if errors.Is(err, known) {
			return err
		}
	}
	if s.closed.Load() {
		return s.gone()
	}
	code := sqlState(err)
	if (code == "" || code == "57014") && ctx.Err() != nil {
		return fmt.Errorf("%s: %w", act, ctx.Err())
	}
	if code == "" {
		var refused *sqlstore.Refusal
		switch {
		case errors.As(err, &refused), errors.Is(err, errBusy), errors.Is(err, errNotAtOnce):
			return err
		case beyondDriver(err):
			return fmt.Errorf("%s: %w: %w: %w", act, store.ErrInvalid, store.ErrTooLarge, err)
		}
		return fmt.Errorf("%s: %w: %w", act, store.ErrUnavailable, err)
	}
	if code == "42P01" || code == "42883" || code == "3F000" {
		s.missing.Store(true)
	}
	help, class := classOf(code, s.schema)
	if class == nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	return fmt.Errorf("%s: %w: %w%s", act, class, err, help)
}

// gone is the error of a store that was closed: by its user, or because its database has moved.
func (s *Store) gone() error {
	if s.retired.Load() {
		return fmt.Errorf("%w: the database has moved", store.ErrUnavailable)
	}
	return store.ErrClosed
}

// classOf returns what to do about an error by its code, and its class. nil: the act is the
// reason, and breaks no rule of the contract.
func classOf(code, schema string) (help string, class error) {
	tooLarge := func(class error) error { return fmt.Errorf("%w: %w", class, store.ErrTooLarge) }
	switch code[:2] {
	case "22": // bytes that are no text, numbers out of range
		return "", store.ErrInvalid
	case "23": // constraints
		return "", nil
	case "54": // larger than the server can keep
		return "; expected less than 1 GB", tooLarge(store.ErrInvalid)
	case "53": // resources: disk, memory, connections
		return "; give the server room, and it goes on", store.ErrUnavailable
	case "40", "55": // taken back, a lock that is not to be had
		return "; another transaction is in the way", store.ErrUnavailable
	case "28", "42", "3F", "3D": // authorization, undefined table, no such schema or database
		return "; check the role's rights and the schema " + schema, store.ErrUnavailable
	case "58", "XX": // the system, internal
		return "; look into the server's log, at its disk and its memory", store.ErrUnavailable
	}
	if code == "57014" {
		return "; the server has ended it: see statement_timeout of the role", tooLarge(store.ErrUnavailable)
	}
	return "", store.ErrUnavailable
}
