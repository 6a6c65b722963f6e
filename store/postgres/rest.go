package postgres

import (
	"context"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// Messages that wait for a run that is paused, held or delayed may be many, and stay so for
// days. Every claim would read through them, because they are unexamined. So the owner's
// claim that has passed by restAt of them puts them to rest: they leave the index that
// claims read.
//
// They come back when the run is claimed. Only a claim leads to a change of the run that
// could make one of its items count, and a claim and rest do not happen at once to one run:
//
//   - rest locks the runs first, and looks what they are in a later statement;
//   - a claim changes the run's row first, and stirs its items in a later statement.
//
// So nothing is at rest in a run that is claimed. An item that is sent meanwhile is new, and
// does not rest. Nobody waits for a lock here: a run that is locked is left for later.

const (
	restAt    = 100  // that few cost less than a transaction that writes
	restRuns  = 1000 // for one claim
	restItems = 2000
)

const (
	lockResting = "SELECT run_no FROM stet.runs WHERE run_no=ANY($1::bigint[]) AND ready<>{claimed} " +
		"FOR NO KEY UPDATE SKIP LOCKED"
	stirText = "UPDATE stet.inbox SET rests=false WHERE run_no=ANY($1::bigint[]) AND rests"
)

var restText = `UPDATE stet.inbox SET rests=true WHERE item_no=ANY(ARRAY(
	SELECT i.item_no FROM unnest($1::bigint[]) AS k(run_no), LATERAL (
		SELECT r.status, r.marks, r.wake_at FROM stet.runs r
		WHERE r.run_no=k.run_no AND r.ready+0<>{claimed} AND r.status NOT IN {ended} OFFSET 0) r, LATERAL (
		SELECT i.item_no, i.kind FROM stet.inbox i WHERE i.run_no=k.run_no AND i.state={new} AND NOT i.rests OFFSET 0) i
	WHERE NOT (` + sqlstore.Calls("i", "true") + `) LIMIT $2))`

// rest puts the items to rest that the query has passed by. If it cannot, a later claim tries
// again.
func (q *claimQuery) rest(ctx context.Context, s *Store) {
	if s.enter(ctx) != nil {
		return
	}
	defer s.leave()
	err := s.write(ctx, "put items to rest", lockLimit, func(t *tx, _ store.Time) error {
		var locked []int64
		err := t.each(lockResting, []any{q.resting}, func(scan func(...any) error) error {
			var no int64
			err := scan(&no)
			locked = append(locked, no)
			return err
		})
		if err != nil || len(locked) == 0 {
			return err
		}
		_, err = t.exec(restText, locked, restItems)
		return err
	})
	if err != nil {
		s.log.DebugContext(ctx, "items that make no run ready could not be put to rest; the next claim tries again",
			"error", err)
	}
}
