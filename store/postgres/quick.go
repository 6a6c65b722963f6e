package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/store"
)

// quick carries out commands of the usual kind, plain starts and items for several runs,
// in the round trip in which their transaction begins. A single command that it finds to
// be otherwise (for a run that is there, or is not, or has ended; an item that is there)
// it leaves to the applier, which then finds it so as well; several are begun anew,
// because they are carried out in their order.
type quick struct {
	commands []store.Command
	floor    int64
	test     any

	answers []store.Answer
	done    bool
}

// newQuick returns nil for commands that are not of the usual kind.
func (s *Store) newQuick(commands []store.Command) *quick {
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
	q := &quick{commands: commands, answers: make([]store.Answer, len(commands))}
	q.floor, q.test = s.times()
	return q
}

const (
	quickStart = `INSERT INTO stet.runs (id, grp, slot, workflow, status, ready, wake_at, seed, parent_no, parent_loc, created, started, input, headers)
		SELECT $3::text, $4::text, $5::bigint, $6::text, 1, CASE WHEN w.at>b.now THEN 0 ELSE 1 END, CASE WHEN w.at>b.now THEN w.at END,
			$7::bytea, $8::bigint, $9::bytea, b.now, 0, $10::bytea, $11::bytea
		FROM (SELECT ` + nowExpr + ` AS now OFFSET 0) b, LATERAL (SELECT greatest($12::bigint, CASE WHEN $13::bigint>0 THEN b.now+$13::bigint ELSE 0 END) AS at) w
		ON CONFLICT (id) DO NOTHING RETURNING run_no, created`

	quickSend = `WITH i AS (INSERT INTO stet.inbox (run_no, kind, name, item_id, origin, incarnation, loc, failed, sent_at, val, headers, generation)
			SELECT r.run_no, $3::bigint, $4::text, $5::text, $6::bytea, $7::bigint, $8::bytea, $9::boolean, ` + nowExpr + `, $10::bytea, $11::bytea, $12::bigint
			FROM stet.runs r WHERE r.status+0 NOT IN (4,5,6) AND `
	quickSent = ` ON CONFLICT (run_no, item_id) DO NOTHING RETURNING item_no)
		SELECT ` + runNoOutput + `, (SELECT item_no FROM i) FROM stet.runs r WHERE EXISTS (SELECT FROM i) AND `
	quickByID = "r.id=$13::text"
	quickByNo = "r.run_no=$13::bigint"
)

func (q *quick) queue(s *Store, batch *pgx.Batch) {
	for i := range q.commands {
		c := &q.commands[i]
		if st := c.Start; st != nil {
			batch.Queue(s.sql(quickStart), plain([]any{q.floor, q.test, st.ID, st.Shard.Group, st.Shard.Slot, st.Workflow, st.Seed[:], st.Parent,
				[]byte(st.ParentLoc), st.Input, st.Headers, st.At, st.After})...)
			continue
		}
		it, which, key := c.Item, quickByID, any(c.RunID)
		if c.RunNo != 0 {
			which, key = quickByNo, any(c.RunNo)
		}
		batch.Queue(s.sql(quickSend+which+quickSent+which), plain([]any{q.floor, q.test, it.Kind, it.Name, it.ID, []byte(it.Origin), it.Incarnation, []byte(it.Loc),
			it.Failed, it.Value, it.Headers, it.Generation, key})...)
	}
}

func (q *quick) read(results pgx.BatchResults) error {
	for i := range q.commands {
		err := q.readAnswer(results, i)
		if q.done = err == nil; errors.Is(err, pgx.ErrNoRows) {
			if len(q.commands) == 1 {
				return nil
			}
			return errUnusual
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *quick) readAnswer(results pgx.BatchResults, i int) error {
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
		q.answers[i] = store.Answer{Outcome: store.Applied, Item: store.ItemNo(no)}
		q.answers[i].Run, err = f.run()
	}
	return err
}
