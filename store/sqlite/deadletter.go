package sqlite

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// DeadLetters implements store.Store.
func (s *Store) DeadLetters(ctx context.Context, f store.DeadFilter) (store.DeadPage, error) {
	limit, below, err := f.Bounds()
	if err != nil {
		return store.DeadPage{}, err
	}
	q := &search{from: "stet_inbox i JOIN stet_runs r ON r.run_no=i.run_no"}
	q.and("i.state={dead}")
	if below != 0 {
		q.and("i.item_no<?", int64(below))
	}
	for _, in := range []struct {
		column string
		values any
		count  int
	}{{"i.item_no", f.Nos, len(f.Nos)}, {"r.id", f.RunIDs, len(f.RunIDs)}, {"r.workflow", f.Workflows, len(f.Workflows)},
		{"i.name", f.Names, len(f.Names)}} {
		if in.count == 0 {
			continue
		}
		if err := q.in(in.column, in.values); err != nil {
			return store.DeadPage{}, err
		}
	}
	columns := itemColumns
	if !f.Values {
		columns = strings.Replace(columns, "i.val", "NULL", 1)
	}
	query := "SELECT " + columns + ", i.run_no, r.id, r.workflow, r.status, r.incarnation, coalesce(length(i.val), 0) " +
		"FROM " + q.from + " WHERE " + q.text.String() + " ORDER BY i.item_no DESC LIMIT ?"
	var page store.DeadPage
	err = s.read.do(ctx, "list dead letters", func(c *conn) error {
		return c.each(query, append(q.args, limit+1), func(r *sqlite3.Stmt) error {
			page.Letters = append(page.Letters, store.DeadLetter{
				Item: scanItem(r), Run: store.RunNo(r.ColumnInt64(itemWidth)), RunID: r.ColumnText(itemWidth + 1),
				Workflow: r.ColumnText(itemWidth + 2), Status: store.Status(r.ColumnInt64(itemWidth + 3)),
				Incarnation: r.ColumnInt(itemWidth + 4), Size: r.ColumnInt(itemWidth + 5),
			})
			return nil
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
	text, err := json.Marshal(append([]store.ItemNo{}, items...)) // a list, even of none
	if err != nil {
		return nil, err
	}
	were := make([]bool, len(items))
	err = s.write.do(ctx, "discard dead letters", func(c *conn, _ store.Time) error {
		dead := map[store.ItemNo]bool{}
		err := c.each("SELECT item_no FROM stet_inbox WHERE state={dead} AND item_no IN (SELECT value FROM json_each(?))",
			[]any{string(text)}, func(r *sqlite3.Stmt) error {
				dead[store.ItemNo(r.ColumnInt64(0))] = true
				return nil
			})
		if err != nil {
			return err
		}
		for i, no := range items {
			were[i] = dead[no]
		}
		_, err = c.exec(`UPDATE stet_inbox SET state={consumed}, val=NULL, headers=NULL
			WHERE state={dead} AND item_no IN (SELECT value FROM json_each(?))`, string(text))
		return err
	})
	if err != nil {
		return nil, err
	}
	return were, nil
}
