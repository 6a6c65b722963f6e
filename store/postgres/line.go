package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// The waiting runs of a queue, and the admitted ones, both in the order of an index.
const (
	waiters     = "SELECT r.run_no, r.id, r.qkey, r.qline, r.queue FROM stet.runs r WHERE r.q=$1::text AND "
	waitingRuns = waiters + sqlstore.Waits +
		" AND (r.qline, r.run_no)>($2::bytea, $3::bigint) ORDER BY r.qline, r.run_no LIMIT $4::bigint"
	admittedRuns = waiters +
		"r.marks & {admitted} <> 0 AND r.run_no>$2::bigint ORDER BY r.run_no LIMIT $3::bigint"
)

// Waiting implements store.Store.
func (s *Store) Waiting(ctx context.Context, q store.WaitingQuery) (found []store.Waiter, err error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	after, line := store.Waiter{}, []byte{}
	if q.After != nil {
		after, line = *q.After, sqlstore.LineKey(q.After.Priority, q.After.Due)
	}
	limit := any(nil)
	if q.Limit > 0 {
		limit = int64(q.Limit)
	}
	text, args := waitingRuns, []any{q.Queue, line, after.No, limit}
	if q.Admitted {
		text, args = admittedRuns, []any{q.Queue, after.No, limit}
	}
	err = s.read(ctx, "read who waits", func(t *tx) error {
		return t.each(text, args, func(scan func(...any) error) error {
			var no int64
			var w store.Waiter
			var order []byte
			if err := scan(&no, &w.ID, &w.Key, &order, &w.Place); err != nil {
				return err
			}
			w.No = store.RunNo(no)
			w.Priority, w.Due = sqlstore.ReadLineKey(order)
			found = append(found, w)
			return nil
		})
	})
	return found, err
}

// admitRuns admits runs, and claims each that the batch may claim, see storekit.Claimable. It fails if a run does not
// wait.
const admitRuns = `WITH u AS (UPDATE stet.runs r SET marks=r.marks & ~{held} | {admitted}, wake_at=NULL,
		(ready, status, started) = (SELECT CASE WHEN x.claims THEN {claimed} ELSE {ready} END,
			CASE WHEN x.claims THEN {running} ELSE r.status END,
			CASE WHEN x.claims AND r.started=0 THEN ` + nowOfRiders + ` ELSE r.started END
			FROM (SELECT q.adopt AND r.status IN ({queued},{suspended}) AND EXISTS (
				SELECT FROM unnest($6::text[], $7::bigint[]) AS l(grp, slot) WHERE l.grp=r.grp AND l.slot=r.slot) AS claims
				OFFSET 0) x)
		FROM unnest($3::bigint[], $4::text[], $5::boolean[]) AS q(run, queue, adopt)
		WHERE r.run_no=q.run AND r.q=q.queue AND ` + sqlstore.Waits + ` AND r.ready+0<>{claimed}
		RETURNING r.run_no, r.ready={claimed} AS claimed),
	n AS (UPDATE stet.inbox n SET rests=false WHERE n.run_no=ANY(ARRAY(SELECT run_no FROM u WHERE claimed)) AND n.rests)
	SELECT array_agg(run_no) FILTER (WHERE claimed), 1/(count(*)=cardinality($3))::integer FROM u`

// admitStatement admits runs.
func (f *flatBatch) admitStatement(at stamp) statement {
	list := f.riders.admits
	v := timed(at)
	numbersOf(v, list, func(c *store.Command) int64 { return int64(c.RunNo) })
	textsOf(v, list, func(c *store.Command) string { return c.Admit })
	boolsOf(v, list, func(c *store.Command) bool { return c.Claim })
	textsOf(v, f.leases, func(l store.Lease) string { return name(l.Shard.Group) })
	numbersOf(v, f.leases, func(l store.Lease) int64 { return int64(l.Shard.Slot) })
	return statement{admitRuns, v, func(a *answer, rows *pgconn.ResultReader) error {
		row, err := onlyRow(rows, 2)
		if err == nil {
			a.admitted, err = readNumbers(row[0])
		}
		return err
	}}
}

// optional returns a text that may be NULL.
func optional(text *string) []byte {
	if text == nil {
		return nil
	}
	return append([]byte{}, *text...)
}
