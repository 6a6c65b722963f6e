package sqlite

import (
	"context"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// The waiting runs of a queue, and the admitted ones, both in the order of an index. The first parameter is the queue,
// the next ones say after which run, the last is the limit.
var (
	waitingRuns = waiters + " INDEXED BY stet_runs_waiting WHERE r.q=? AND " +
		sqlstore.Waits + " AND (r.qline, r.run_no)>(?, ?) ORDER BY r.qline, r.run_no LIMIT ?"
	admittedRuns = waiters + " INDEXED BY stet_runs_admitted WHERE r.q=? AND " +
		"r.marks & {admitted} <> 0 AND r.run_no>? ORDER BY r.run_no LIMIT ?"
)

const waiters = "SELECT r.run_no, r.id, r.qkey, r.qline, r.queue FROM stet_runs r"

// Waiting implements store.Store.
func (s *Store) Waiting(ctx context.Context, q store.WaitingQuery) ([]store.Waiter, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	after := store.Waiter{}
	if q.After != nil {
		after = *q.After
	}
	limit := int64(-1) // none
	if q.Limit > 0 {
		limit = int64(q.Limit)
	}
	text, args := admittedRuns, []any{q.Queue, int64(after.No), limit}
	if !q.Admitted {
		line := []byte{}
		if q.After != nil {
			line = sqlstore.LineKey(after.Priority, after.Due)
		}
		text, args = waitingRuns, []any{q.Queue, line, int64(after.No), limit}
	}
	var found []store.Waiter
	err := s.read.do(ctx, "read who waits", func(c *conn) error {
		return c.each(text, args, func(r *sqlite3.Stmt) error {
			w := store.Waiter{No: store.RunNo(r.ColumnInt64(0)), ID: r.ColumnText(1), Key: r.ColumnText(2), Place: value(r, 4)}
			w.Priority, w.Due = sqlstore.ReadLineKey(r.ColumnRawBlob(3))
			found = append(found, w)
			return nil
		})
	})
	return found, err
}

// Entities that rest although a run waits in their line (law 34): of a shard, by number; and those whose code the
// node lacks. Queues with waiters are found by steps from one to the next.
var (
	linedRuns  = linedBy(fits) + " ORDER BY r.run_no LIMIT ?6"
	unfitLined = linedBy("NOT "+fits) + withoutCode
)

func linedBy(condition string) string {
	waiting := strings.NewReplacer("WAITING", "stet_runs r INDEXED BY stet_runs_waiting WHERE "+sqlstore.Waits)
	return waiting.Replace(`WITH RECURSIVE
		queues(q) AS (SELECT min(r.q) FROM WAITING
			UNION ALL SELECT (SELECT min(r.q) FROM WAITING AND r.q>l.q) FROM queues l WHERE l.q IS NOT NULL)
		SELECT r.run_no, r.workflow, r.build FROM queues l CROSS JOIN stet_runs r ON r.id=l.q WHERE l.q IS NOT NULL
			AND r.ready={idle} AND r.status={suspended} AND r.marks & {paused} = 0
			AND r.workflow>='`+store.EntityPrefix+`' AND r.workflow<'`+store.AfterEntityPrefix+`' AND `) +
		here + " AND " + condition
}

// findLined adds the entities of linedRuns to those marked ready.
func (l *lookShard) findLined() error {
	return l.c.each(linedRuns, append(l.args, l.req.Limit+1), func(s *sqlite3.Stmt) error {
		l.candidates = append(l.candidates, sqlstore.Candidate{Class: isMarked, Workflow: s.ColumnText(1),
			No: store.RunNo(s.ColumnInt64(0))})
		return nil
	})
}
