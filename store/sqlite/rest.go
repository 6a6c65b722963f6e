package sqlite

import (
	"fmt"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// Messages that wait for a run that is paused, held or delayed may be many, and stay so for
// days. Every claim would read through them, because they are unexamined. So a claim that
// has passed by restAt of them puts them to rest: they leave the index that claims read.
// They come back when the run is claimed, and only a claim leads to a change of the run
// that could make one of its items count (sqlstore.Stir).

const (
	restAt = 100 // that few cost less than a transaction that writes
	// mostResting is how many items are counted, and put to rest by one claim.
	mostResting = store.MaxClaim
)

// atRest is the condition of an item that makes its run ready for no node.
var atRest = news + " AND r.ready<>{claimed} AND r.status NOT IN {ended} AND " + here + " AND NOT (" +
	sqlstore.Calls("i", "true") + ")"

var (
	restingItems = "SELECT count(*) FROM (SELECT 1 FROM " + newsOf + " WHERE " + atRest + " LIMIT ?6)"
	putToRest    = "UPDATE stet_inbox SET rests=1 WHERE item_no IN (SELECT i.item_no FROM " + newsOf + " WHERE " + atRest +
		" LIMIT ?6)"
)

// rest puts the items to rest that this look has passed by.
func (q *claimQuery) rest(c *conn, now store.Time) error {
	for i := range q.req.Leases {
		shard := q.req.Leases[i].Shard
		if !q.states[i].items || q.states[i].epoch != q.req.Leases[i].Epoch {
			continue
		}
		if _, err := c.exec(putToRest, append(q.args(shard, now), mostResting)...); err != nil {
			return fmt.Errorf("put items to rest: %w", err)
		}
	}
	return nil
}
