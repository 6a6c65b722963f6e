package postgres

import (
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stet-run/stet/store"
)

// The parts of commit_one.go for items.

// An item that a turn consumes is pending, or the statement writes nothing. Should it be consumed all the same while
// the statement waits for a lock, c is empty, and the division by its rows fails the statement.
const (
	isPending = ` AND EXISTS (SELECT FROM stet.inbox i
			WHERE i.item_no=@item AND i.run_no+0=$8 AND i.state+0<{consumed})`
	consume = `, c AS (UPDATE stet.inbox i SET state={consumed}, val=NULL, headers=NULL, verdict=@verdict FROM b
			WHERE i.item_no=@item AND i.run_no+0=$8 AND i.state+0<{consumed} RETURNING 1)`
)

// oneItemText returns the rest of the statement for an item, after addBatch. The run gets the item if it has not
// ended and has none of the item's ID; the statement claims it as commit_1 does.
func oneItemText(shape oneShape) string {
	run, last := "r.id=$8", "$19"
	if shape.number {
		run = "r.run_no=$8"
	}
	if shape.claim {
		last = "$21"
	}
	text := newBatch(last) + ` AND EXISTS (SELECT FROM stet.runs r WHERE ` + run + ` AND r.status+0 NOT IN {ended}
			AND NOT EXISTS (SELECT FROM stet.inbox i WHERE i.run_no=r.run_no AND i.item_id=$11 OFFSET 0))` + returnNow + `,
		i AS (INSERT INTO stet.inbox (run_no, kind, name, item_id, origin, incarnation, loc, failed, sent_at, val, headers,
			generation) SELECT r.run_no, $9, $10, $11, $12, $13, $15, $16, b.now, $17, $18, $14
			FROM b, stet.runs r WHERE ` + run + ` RETURNING run_no, item_no)`
	if !shape.claim {
		return text + " SELECT b.now, i.run_no, i.item_no, NULL::bigint FROM b, i"
	}
	return text + `,
		c AS (UPDATE stet.runs r SET ready={claimed}, wake_at=NULL, status={running},
				started=CASE WHEN r.started=0 THEN b.now ELSE r.started END FROM b
			WHERE ` + run + ` AND r.ready+0<>{claimed} AND r.marks & {pausedOrHeld} = 0
			AND (r.status={suspended} OR r.status={queued} AND (r.ready+0={ready} OR r.wake_at<=b.now))
			AND EXISTS (SELECT FROM unnest($19::text[], $20::bigint[]) AS l(grp, slot) WHERE l.grp=r.grp AND l.slot=r.slot)
			RETURNING run_no),
		w AS (UPDATE stet.inbox i SET rests=false WHERE i.rests AND i.run_no=ANY(ARRAY(SELECT run_no FROM c)))
		SELECT b.now, i.run_no, i.item_no, (SELECT run_no FROM c) FROM b, i`
}

// oneItemStatement returns it. v has the head.
func (f *flatBatch) oneItemStatement(v *values) statement {
	s := &f.sends[0]
	shape := oneShape{kind: oneItem, number: s.RunNo != 0}
	shape.claim = s.Claim && s.Item.Kind != store.ItemPause // a run that is to be paused is at rest
	if shape.number {
		v.number(int64(s.RunNo))
	} else {
		v.text(s.RunID)
	}
	v.short(int64(s.Item.Kind))
	v.text(s.Item.Name)
	v.text(s.Item.ID)
	v.bytea([]byte(s.Item.Origin))
	v.integer(int64(s.Item.Incarnation))
	v.integer(int64(s.Item.Generation))
	v.bytea([]byte(s.Item.Loc))
	v.bool(s.Item.Failed)
	v.bytea(s.Item.Value)
	v.bytea(s.Item.Headers)
	if shape.claim {
		f.addLeases(v)
	}
	v.number(f.b.Last)
	return statement{oneText(shape), v, (*answer).readOneItem}
}

// readOneItem reads the answer to an item: the time, the run, the item, and the run if it is claimed.
func (a *answer) readOneItem(rows *pgconn.ResultReader) error {
	row, err := onlyRow(rows, 4)
	if err != nil {
		return err
	}
	var list [4]int64
	for i, column := range row {
		if column == nil {
			continue // not claimed
		}
		if list[i], err = readNumber(column); err != nil {
			return err
		}
	}
	a.now, a.receivers, a.items = store.Time(list[0]), list[1:2], list[2:3]
	if row[3] != nil {
		a.claimed = list[3:]
	}
	return nil
}
