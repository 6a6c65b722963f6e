package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// open returns the items of a run that are not consumed, or are updates without
// an answer, in the order of their numbers.
func (c *conn) open(no store.RunNo) ([]store.Item, error) {
	var items []store.Item
	scan := func(r *sqlite3.Stmt) error {
		items = append(items, scanHead(r))
		return nil
	}
	if err := c.each(`SELECT `+itemHeads+` FROM stet_inbox i
		WHERE state IN ({new},{seen}) AND state<{consumed} AND run_no=?
		ORDER BY item_no`, []any{int64(no)}, scan); err != nil {
		return nil, err
	}
	first := len(items)
	if err := c.each(`SELECT `+itemHeads+` FROM stet_inbox i INDEXED BY stet_inbox_unanswered
		WHERE run_no=? AND kind={update} AND verdict IS NULL AND state={consumed}`, []any{int64(no)}, scan); err != nil {
		return nil, err
	}
	if len(items) > first {
		slices.SortFunc(items, func(a, b store.Item) int { return cmp.Compare(a.No, b.No) })
	}
	return items, nil
}

// Feeds implements store.Store.
func (s *Store) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	runs, err := json.Marshal(append([]store.RunNo{}, q.Runs...))
	if err != nil {
		return nil, err
	}
	columns, condition, args := "run_no, stream, name, last, dropped, at, length(val)", "", []any{string(runs)}
	if q.Values {
		columns += ", val"
	}
	if q.Name != "" {
		condition = " AND stream IN (0,1) AND name=?"
		args = append(args, q.Name)
	}
	var feeds []store.Feed
	err = s.read.do(ctx, "read feeds", func(c *conn) error {
		return c.each("SELECT "+columns+" FROM stet_feeds WHERE run_no IN (SELECT value FROM json_each(?))"+condition+
			" ORDER BY run_no, stream, name",
			args, func(r *sqlite3.Stmt) error {
				f := store.Feed{Run: store.RunNo(r.ColumnInt64(0)), Stream: r.ColumnBool(1), Name: r.ColumnText(2),
					Last: r.ColumnInt64(3), Dropped: r.ColumnInt64(4), At: store.Time(r.ColumnInt64(5)), Size: r.ColumnInt(6)}
				if q.Values {
					f.Value = value(r, 7)
				}
				feeds = append(feeds, f)
				return nil
			})
	})
	return feeds, err
}

// Stream implements store.Store.
func (s *Store) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	limit, err := q.Bounds()
	if err != nil {
		return nil, err
	}
	var items []store.StreamItem
	err = s.read.do(ctx, "read a stream", func(c *conn) error {
		size := 0
		err := c.each("SELECT pos, at, rewound, val, length(val) FROM stet_streams WHERE run_no=? AND name=? AND pos>? "+
			"ORDER BY pos LIMIT ?",
			[]any{int64(q.Run), q.Name, q.After, limit}, func(r *sqlite3.Stmt) error {
				if size += r.ColumnInt(4); size > store.MaxStreamRead && len(items) > 0 {
					return errEnough
				}
				items = append(items, store.StreamItem{Pos: r.ColumnInt64(0), At: store.Time(r.ColumnInt64(1)),
					Rewound: r.ColumnBool(2), Value: value(r, 3)})
				return nil
			})
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	})
	return items, err
}

// errEnough ends a reading early.
var errEnough = errors.New("enough")

// tagged adds the filter's tags to a query. Unless the query names its runs, the
// first key leads it.
func (s *search) tagged(f *store.Filter, leading string) error {
	values := f.TagValues()
	keys := slices.Sorted(maps.Keys(values))
	if leading != "" {
		keys = append([]string{leading}, slices.DeleteFunc(keys, func(key string) bool { return key == leading })...)
	}
	for i, key := range keys {
		list, err := json.Marshal(values[key])
		if err != nil {
			return err
		}
		if i == 0 && s.tags {
			s.from = "stet_tags t CROSS JOIN stet_runs ON run_no=t.tagged"
			s.and("t.key=? AND t.value IN (SELECT value FROM json_each(?))", key, string(list))
			continue
		}
		s.and(`EXISTS (SELECT 1 FROM stet_tags o
			WHERE o.key=? AND o.value IN (SELECT value FROM json_each(?)) AND o.tagged=run_no)`, key, string(list))
	}
	return nil
}
