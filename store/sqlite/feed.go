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
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// answers writes the answers of a turn to updates.
func (t *committing) answers(turn *store.Turn) error {
	no := int64(turn.Run)
	for _, c := range turn.Answers {
		if c.Verdict == nil {
			return refuse("the answer to update number %d is none", c.Item)
		}
		n, err := t.c.exec("UPDATE stet_inbox SET verdict=? WHERE item_no=? AND run_no=? AND kind=8 AND state=3 AND verdict IS NULL", c.Verdict, int64(c.Item), no)
		if err != nil {
			return err
		} else if n == 0 {
			return refuse("the run has no update number %d that is consumed and not answered", c.Item)
		}
	}
	return nil
}

// publish writes what a turn shows to readers.
func (t *committing) publish(turn *store.Turn) error {
	no := int64(turn.Run)
	for i := range turn.Values {
		v := &turn.Values[i]
		if _, err := t.c.exec(`INSERT INTO stet_feeds (run_no, stream, name, last, at, val) VALUES (?1,0,?2,1,?3,?4)
			ON CONFLICT DO UPDATE SET last=last+1, at=?3, val=?4`, no, v.Name, t.now, v.Value); err != nil {
			return err
		}
	}
	if turn.Rewound {
		if err := t.markStreams(no); err != nil {
			return err
		}
	}
	if err := t.appends(no, turn.Appends); err != nil {
		return err
	}
	return t.setTags(turn)
}

// markStreams puts the mark of a rewind into every stream of the run.
func (t *committing) markStreams(no int64) error {
	if _, err := t.c.exec("UPDATE stet_feeds SET last=last+1, at=? WHERE run_no=? AND stream=1", t.now, no); err != nil {
		return err
	}
	_, err := t.c.exec(`INSERT INTO stet_streams (run_no, name, pos, at, rewound)
		SELECT run_no, name, last, at, 1 FROM stet_feeds WHERE run_no=? AND stream=1`, no)
	return err
}

// appends writes items of streams: the row of each stream once, then the items.
func (t *committing) appends(no int64, items []store.Append) error {
	if len(items) == 0 {
		return nil
	}
	next := map[string]int64{} // how many items of a stream, then the position of the next
	for i := range items {
		next[items[i].Name]++
	}
	for name, count := range next {
		var last int64
		if _, err := t.c.row(`INSERT INTO stet_feeds (run_no, stream, name, last, at) VALUES (?1,1,?2,?3,?4)
			ON CONFLICT DO UPDATE SET last=last+?3, at=?4 RETURNING last`, []any{no, name, count, t.now}, &last); err != nil {
			return err
		}
		next[name] = last - count + 1
	}
	for i := range items {
		a := &items[i]
		if _, err := t.c.exec("INSERT INTO stet_streams (run_no, name, pos, at, rewound, val) VALUES (?,?,?,?,0,?)",
			no, a.Name, next[a.Name], t.now, a.Value); err != nil {
			return err
		}
		next[a.Name]++
	}
	return nil
}

// setTags changes the tags of a run.
func (t *committing) setTags(turn *store.Turn) error {
	if len(turn.Tags) == 0 {
		return nil
	}
	var stored []byte
	if _, err := t.c.row("SELECT tags FROM stet_runs WHERE run_no=?", []any{int64(turn.Run)}, &stored); err != nil {
		return err
	}
	former, err := sqlstore.DecodeTags(stored)
	if err != nil {
		return err
	}
	tags := store.MergeTags(former, turn.Tags)
	if _, err := t.c.exec("UPDATE stet_runs SET tags=? WHERE run_no=?", sqlstore.EncodeTags(tags), int64(turn.Run)); err != nil {
		return err
	}
	return retag(t.c, turn.Run, former, tags)
}

// retag makes the rows of stet_tags those of the tags.
func retag(q querier, no store.RunNo, former, tags []store.Pair) error {
	for _, tag := range former {
		if !slices.Contains(tags, tag) {
			if _, err := q.exec("DELETE FROM stet_tags WHERE key=? AND value=? AND tagged=?", tag.Key, tag.Value, int64(no)); err != nil {
				return err
			}
		}
	}
	for _, tag := range tags {
		if !slices.Contains(former, tag) {
			if _, err := q.exec("INSERT INTO stet_tags (key, value, tagged) VALUES (?,?,?)", tag.Key, tag.Value, int64(no)); err != nil {
				return err
			}
		}
	}
	return nil
}

// abandon answers the updates of a run that have no answer. Who ends a run, or
// has it continue as new, calls it.
func (t *committing) abandon(no store.RunNo) error {
	_, err := t.c.exec("UPDATE stet_inbox INDEXED BY stet_inbox_unanswered SET state=3, val=NULL, headers=NULL, verdict=? WHERE run_no=? AND kind=8 AND verdict IS NULL",
		[]byte(store.Unanswered), int64(no))
	return err
}

// open returns the items of a run that are not consumed, or are updates without
// an answer, in the order of their numbers.
func (c *conn) open(no store.RunNo) ([]store.Item, error) {
	var items []store.Item
	scan := func(r *sqlite3.Stmt) error {
		items = append(items, scanItem(r))
		return nil
	}
	if err := c.each("SELECT "+itemColumns+" FROM stet_inbox i WHERE state IN (1,2) AND state<3 AND run_no=? ORDER BY item_no", []any{int64(no)}, scan); err != nil {
		return nil, err
	}
	first := len(items)
	if err := c.each("SELECT "+itemColumns+" FROM stet_inbox i INDEXED BY stet_inbox_unanswered WHERE run_no=? AND kind=8 AND verdict IS NULL AND state=3", []any{int64(no)}, scan); err != nil {
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
	columns, condition, args := "run_no, stream, name, last, at, length(val)", "", []any{string(runs)}
	if q.Values {
		columns += ", val"
	}
	if q.Name != "" {
		condition = " AND stream IN (0,1) AND name=?"
		args = append(args, q.Name)
	}
	var feeds []store.Feed
	err = s.read.do(ctx, "read feeds", func(c *conn) error {
		return c.each("SELECT "+columns+" FROM stet_feeds WHERE run_no IN (SELECT value FROM json_each(?))"+condition+" ORDER BY run_no, stream, name",
			args, func(r *sqlite3.Stmt) error {
				f := store.Feed{Run: store.RunNo(r.ColumnInt64(0)), Stream: r.ColumnBool(1), Name: r.ColumnText(2),
					Last: r.ColumnInt64(3), At: store.Time(r.ColumnInt64(4)), Size: r.ColumnInt(5)}
				if q.Values {
					f.Value = value(r, 6)
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
		err := c.each("SELECT pos, at, rewound, val, length(val) FROM stet_streams WHERE run_no=? AND name=? AND pos>? ORDER BY pos LIMIT ?",
			[]any{int64(q.Run), q.Name, q.After, limit}, func(r *sqlite3.Stmt) error {
				if size += r.ColumnInt(4); size > store.MaxStreamRead && len(items) > 0 {
					return errEnough
				}
				items = append(items, store.StreamItem{Pos: r.ColumnInt64(0), At: store.Time(r.ColumnInt64(1)), Rewound: r.ColumnBool(2), Value: value(r, 3)})
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
func (s *search) tagged(f *store.Filter) error {
	values := f.TagValues()
	for i, key := range slices.Sorted(maps.Keys(values)) {
		list, err := json.Marshal(values[key])
		if err != nil {
			return err
		}
		if i == 0 && s.tags {
			s.from = "stet_tags t CROSS JOIN stet_runs ON run_no=t.tagged"
			s.and("t.key=? AND t.value IN (SELECT value FROM json_each(?))", key, string(list))
			continue
		}
		s.and("EXISTS (SELECT 1 FROM stet_tags o WHERE o.key=? AND o.value IN (SELECT value FROM json_each(?)) AND o.tagged=run_no)", key, string(list))
	}
	return nil
}
