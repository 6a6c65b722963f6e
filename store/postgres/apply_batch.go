package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

// commandBatch carries out starts and items for several runs with one statement each, in
// the round trip in which their transaction begins.
//
// Used when newCommandBatch accepts the commands. A statement writes nothing if the run of
// a start exists, or that of an item does not or has ended, or the item is there. The
// applier then carries out a single command; several are begun from scratch, because they
// are carried out in their order.
type commandBatch struct {
	commands []store.Command
	floor    int64
	test     any

	answers []store.Answer
	done    bool
}

// newCommandBatch returns nil for commands that have to be carried out one after the other.
func (s *Store) newCommandBatch(commands []store.Command) *commandBatch {
	ids, nos := map[string]bool{}, map[store.RunNo]bool{}
	for i := range commands {
		c := &commands[i]
		if st := c.Start; st != nil {
			if st.Fork != nil || st.Queue != nil || len(st.Items)+len(st.Tags) > 0 || ids[st.ID] {
				return nil
			}
			ids[st.ID] = true
			continue
		}
		if c.Item.Kind == store.ItemGrant || c.RunNo == 0 && ids[c.RunID] || nos[c.RunNo] {
			return nil
		}
		if c.RunNo == 0 {
			ids[c.RunID] = true
		} else {
			nos[c.RunNo] = true
		}
	}
	if len(ids) > 0 && len(nos) > 0 {
		return nil // a number and an ID may name the same run
	}
	q := &commandBatch{commands: commands, answers: make([]store.Answer, len(commands))}
	q.floor, q.test = s.times()
	return q
}

const (
	startOne = `INSERT INTO stet.runs (id, grp, slot, workflow, status, ready, wake_at, seed, parent_no, parent_loc,
		created,
			started, input, headers)
		SELECT $3::text, $4::text, $5::bigint, $6::text, {queued}, CASE WHEN w.at>b.now THEN {idle} ELSE {ready} END,
			CASE WHEN w.at>b.now THEN w.at END,
			$7::bytea, $8::bigint, $9::bytea, b.now, 0, $10::bytea, $11::bytea
		FROM (SELECT ` + nowExpr + ` AS now OFFSET 0) b,
			LATERAL (SELECT greatest($12::bigint, CASE WHEN $13::bigint>0 THEN b.now+$13::bigint ELSE 0 END) AS at) w
		ON CONFLICT (id) DO NOTHING RETURNING run_no, created`

	sendOneItem = `WITH i AS (INSERT INTO stet.inbox (run_no, kind, name, item_id, origin, incarnation, loc, failed,
		sent_at,
				val, headers, generation)
			SELECT r.run_no, $3::bigint, $4::text, $5::text, $6::bytea, $7::bigint, $8::bytea, $9::boolean, ` + nowExpr + `,
				$10::bytea, $11::bytea, $12::bigint
			FROM stet.runs r WHERE r.status+0 NOT IN {ended} AND `
	sentOneItem = ` ON CONFLICT (run_no, item_id) DO NOTHING RETURNING item_no)
		SELECT ` + runNoOutput + `, (SELECT item_no FROM i) FROM stet.runs r WHERE EXISTS (SELECT FROM i) AND `
	toID     = "r.id=$13::text"
	toNumber = "r.run_no=$13::bigint"

	sendToID     = sendOneItem + toID + sentOneItem + toID
	sendToNumber = sendOneItem + toNumber + sentOneItem + toNumber
)

func (q *commandBatch) queue(s *Store, batch *pgx.Batch) {
	for i := range q.commands {
		c := &q.commands[i]
		if st := c.Start; st != nil {
			batch.Queue(s.sql(startOne), plain([]any{q.floor, q.test, st.ID, st.Shard.Group, st.Shard.Slot, st.Workflow,
				st.Seed[:], st.Parent, []byte(st.ParentLoc), st.Input, st.Headers, st.At, st.After})...)
			continue
		}
		it, text, key := c.Item, sendToID, any(c.RunID)
		if c.RunNo != 0 {
			text, key = sendToNumber, any(c.RunNo)
		}
		batch.Queue(s.sql(text), plain([]any{q.floor, q.test, it.Kind, it.Name, it.ID, []byte(it.Origin), it.Incarnation,
			[]byte(it.Loc), it.Failed, it.Value, it.Headers, it.Generation, key})...)
	}
}

func (q *commandBatch) read(results pgx.BatchResults) error {
	for i := range q.commands {
		err := q.readAnswer(results, i)
		if q.done = err == nil; errors.Is(err, pgx.ErrNoRows) {
			if len(q.commands) == 1 {
				return nil
			}
			return errNotAtOnce
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *commandBatch) readAnswer(results pgx.BatchResults, i int) error {
	if st := q.commands[i].Start; st != nil {
		var no, created int64
		err := results.QueryRow().Scan(&no, &created)
		if err == nil {
			q.answers[i] = started(st, store.RunNo(no), false, store.Time(created))
		}
		return err
	}
	var f runRow
	var no int64
	err := results.QueryRow().Scan(append(f.dest(), &no)...)
	if err == nil {
		q.answers[i] = store.Answer{Outcome: store.Applied, Item: store.ItemNo(no), Run: f.run()}
	}
	return err
}
