package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/stet-run/stet/store"
)

// buryLate makes dead letters of items that became visible after the end of their run, or
// answers them: their senders had not seen the end yet. It is called within an act that
// holds the shards.
func (t *tx) buryLate(shards shardArrays) error {
	const late = ` WHERE i.item_no=ANY(ARRAY(
		SELECT n.item_no FROM (SELECT n.item_no, n.run_no FROM stet.inbox n WHERE n.state={new} OFFSET 0) n, LATERAL (
			SELECT FROM stet.runs r WHERE r.run_no=n.run_no AND r.status+0 IN {ended} AND r.ready+0={idle}
			AND (r.grp, r.slot) IN (SELECT * FROM unnest($1::text[], $2::bigint[])) OFFSET 0) r)) AND i.state+0={new}`
	_, err := t.exec("UPDATE stet.inbox i SET state={dead}"+late+" AND i.kind NOT IN {answered}",
		shards.grps, shards.slots)
	if err != nil {
		return err
	}
	_, err = t.exec("UPDATE stet.inbox i SET state={consumed}, val=NULL, headers=NULL, verdict=$3"+late+
		" AND i.kind={update}",
		shards.grps, shards.slots, []byte(store.Unanswered))
	return err
}

// DeadLetters implements store.Store.
func (s *Store) DeadLetters(ctx context.Context, f store.DeadFilter) (store.DeadPage, error) {
	limit, below, err := f.Bounds()
	if err != nil {
		return store.DeadPage{}, err
	}
	q := &search{}
	q.and("i.state={dead}")
	if below != 0 {
		q.and("i.item_no<?", int64(below))
	}
	if len(f.Nos) > 0 {
		q.and("i.item_no=ANY(?::bigint[])", numbers(f.Nos))
	}
	for _, in := range []struct {
		column string
		values []string
	}{{"r.id", f.RunIDs}, {"r.workflow", f.Workflows}, {"i.name", f.Names}} {
		if len(in.values) > 0 {
			q.and(in.column+"=ANY(?::text[])", possible(in.values))
		}
	}
	columns := itemColumns
	if !f.Values {
		columns = strings.Replace(columns, "i.val", "NULL::bytea", 1)
	}
	query := "SELECT " + columns + ", i.run_no, r.id, r.workflow, r.status, r.incarnation, coalesce(length(i.val), 0)" +
		" FROM stet.inbox i JOIN stet.runs r ON r.run_no=i.run_no" +
		" WHERE " + q.where() + " ORDER BY i.item_no DESC LIMIT " + fmt.Sprint(limit+1)
	var page store.DeadPage
	err = s.single(ctx, "list dead letters", func(t *tx) error {
		return t.eachFree(query, q.args, func(scan func(...any) error) error {
			var l store.DeadLetter
			var status int64
			var err error
			l.Item, err = scanItem(scan, (*int64)(&l.Run), &l.RunID, &l.Workflow, &status, &l.Incarnation, &l.Size)
			l.Status = store.Status(status)
			page.Letters = append(page.Letters, l)
			return err
		})
	})
	if err != nil {
		return store.DeadPage{}, err
	}
	if len(page.Letters) > limit {
		page.Letters = page.Letters[:limit]
		page.Next = store.EncodeCursor(store.RunNo(page.Letters[limit-1].Item.No))
	}
	return page, nil
}

// Discard implements store.Store.
func (s *Store) Discard(ctx context.Context, items []store.ItemNo) ([]bool, error) {
	were := make([]bool, len(items))
	err := s.write(ctx, "discard dead letters", lockLimit, func(t *tx, _ store.Time) error {
		dead := map[store.ItemNo]bool{}
		err := t.each(`UPDATE stet.inbox SET state={consumed}, val=NULL, headers=NULL WHERE item_no IN
			(SELECT item_no FROM stet.inbox WHERE state={dead} AND item_no=ANY($1::bigint[])
				ORDER BY item_no FOR UPDATE) RETURNING item_no`,
			[]any{numbers(items)}, func(scan func(...any) error) error {
				var no int64
				err := scan(&no)
				dead[store.ItemNo(no)] = true
				return err
			})
		for i, no := range items {
			were[i] = dead[no]
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return were, nil
}
