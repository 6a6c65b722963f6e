package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

var _ store.Recorder[pgx.Tx] = (*Store)(nil)

// RecordTx implements store.Recorder.
func (s *Store) RecordTx(ctx context.Context, t pgx.Tx, r *store.Recording) (store.Verdict, *store.Entry, error) {
	return s.recordTx(ctx, pgxQuerier{ctx, t, s}, r, func() error { return t.Commit(ctx) },
		func() error { return s.RollbackTx(ctx, t) })
}

// RollbackTx implements store.Recorder.
func (s *Store) RollbackTx(ctx context.Context, t pgx.Tx) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), idleLimit)
	defer cancel()
	if err := t.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	return nil
}

// RecordTx implements store.Recorder.
func (t sqlTransactor) RecordTx(ctx context.Context, tx *sql.Tx,
	r *store.Recording) (store.Verdict, *store.Entry, error) {
	return t.s.recordTx(ctx, sqlQuerier{ctx, tx, t.s}, r, tx.Commit, func() error { return t.RollbackTx(ctx, tx) })
}

// RollbackTx implements store.Recorder.
func (t sqlTransactor) RollbackTx(_ context.Context, tx *sql.Tx) error {
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// recordText writes the entry if it may be written, and makes the server take the
// transaction back if this process stands still before the commit. It returns how many
// leases, runs and entries it has found.
const recordText = `WITH l AS MATERIALIZED (
		SELECT 1 FROM stet.leases WHERE grp=$17 AND slot=$18 AND epoch=$19 AND node<>'' FOR KEY SHARE),
	r AS MATERIALIZED (
		SELECT 1 FROM stet.runs WHERE run_no=$1 AND incarnation=$2 AND ready={claimed} AND status={running}
			AND grp=$17 AND slot=$18 FOR SHARE),
	i AS (INSERT INTO stet.entries AS old (` + entryNames + `)
		SELECT $1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16
		WHERE EXISTS (SELECT 1 FROM l) AND EXISTS (SELECT 1 FROM r)
		ON CONFLICT (run_no, incarnation, loc) DO UPDATE SET kind=excluded.kind, state=excluded.state,
			seq=excluded.seq, born=excluded.born, at=excluded.at, wake=excluded.wake, attempt=excluded.attempt,
			owes=excluded.owes, started=excluded.started, ended=excluded.ended, size=excluded.size,
			generation=excluded.generation, val=excluded.val
		WHERE old.state IN {unsettled} AND old.attempt<excluded.attempt RETURNING 1)
	SELECT (SELECT count(*) FROM l), (SELECT count(*) FROM r), (SELECT count(*) FROM i),
		set_config('idle_in_transaction_session_timeout', $20, true)`

func (s *Store) recordTx(ctx context.Context, q querier, r *store.Recording,
	commit, rollback func() error) (store.Verdict, *store.Entry, error) {
	const act = "record a step"
	fail := func(err error) (store.Verdict, *store.Entry, error) {
		return 0, nil, errors.Join(s.classify(ctx, act, err), rollback())
	}
	if s.closed.Load() {
		return fail(s.gone())
	}
	e := &r.Entry
	if e.Loc == "" || e.Kind == 0 || e.State != store.Done || e.Seq != 0 {
		return fail(fmt.Errorf("%s: %w: expected a location and the state done without a completion number, found %q, %s "+
			"and %d", act, store.ErrInvalid, e.Loc, e.State, e.Seq))
	}
	var leases, runs, entries int64
	var ignored string
	args := append(entryArgs(r.Run, r.Incarnation, e), name(r.Lease.Shard.Group), r.Lease.Shard.Slot, r.Lease.Epoch,
		fmt.Sprintf("%dms", s.cfg.idle.Milliseconds()))
	if _, err := q.row(recordText, args, &leases, &runs, &entries, &ignored); err != nil {
		if hasEnded(err) && ctx.Err() == nil { // database/sql rolls back when the context is over
			err = fmt.Errorf("%s: the body has ended the transaction; TxStep does that: %w", act, store.ErrInvalid)
			return 0, nil, errors.Join(err, rollback())
		}
		return fail(err)
	}
	switch {
	case leases == 0:
		return store.Fenced, nil, rollback()
	case runs == 0:
		return store.Refused, nil, rollback()
	case entries == 0:
		former, err := formerEntry(q, r)
		if err != nil {
			return fail(err)
		}
		if former.State != store.Done && former.State != store.FailedEntry {
			return store.Refused, nil, rollback() // it stands at a later attempt
		}
		return store.Committed, &former, rollback()
	}
	err := commit()
	switch {
	case err == nil:
		return store.Committed, nil, nil
	case definite(err):
		return fail(err)
	}
	_ = rollback() // so that the pool drops the connection
	return 0, nil, fmt.Errorf("%w: %w", s.classify(ctx, act, err), store.ErrUnknown)
}

// hasEnded reports whether err says that the transaction was committed or rolled back.
func hasEnded(err error) bool {
	return errors.Is(err, pgx.ErrTxClosed) || errors.Is(err, sql.ErrTxDone)
}

// formerEntry reads the entry that stands at the location.
func formerEntry(q querier, r *store.Recording) (store.Entry, error) {
	var e store.Entry
	found, err := q.row("SELECT "+entryValue+" FROM stet.entries e WHERE e.run_no=$1 AND e.incarnation=$2 AND e.loc=$3",
		[]any{r.Run, r.Incarnation, []byte(r.Entry.Loc)}, entryDest(&e)...)
	if err == nil && !found {
		err = fmt.Errorf("%w: the entry that was in the way is gone", store.ErrDamaged)
	}
	return e, err
}
