package sqlite

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// Describe implements store.Store.
func (s *Store) Describe(ctx context.Context) (store.Description, error) {
	d := store.Description{ID: s.id, Kind: "sqlite", Schema: s.schema, Slots: 1, Lines: true, Now: s.clock.read(),
		Durable: "survives kill -9 and power cuts with nothing lost (WAL, synchronous=FULL); not the loss of the disk"}
	if s.cfg.normal {
		d.Durable = "survives kill -9 with nothing lost; a power cut may take back the last acknowledgements " +
			"(WAL, synchronous=NORMAL)"
	}
	err := s.read.do(ctx, "describe the store", func(c *conn) error {
		var err error
		each := func(sql string, fn func(*sqlite3.Stmt) error) {
			if err == nil {
				err = c.each(sql, nil, fn)
			}
		}
		each("SELECT name FROM stet_workflows ORDER BY name", func(r *sqlite3.Stmt) error {
			d.Workflows = append(d.Workflows, r.ColumnText(0))
			return nil
		})
		each(`SELECT node, boot, build, host, pid, workflows, seen_at, about, draining
			FROM stet_nodes WHERE listed=1 ORDER BY node`, func(r *sqlite3.Stmt) error {
			n := store.Node{
				ID: r.ColumnText(0), Boot: r.ColumnText(1), Build: r.ColumnText(2), Host: r.ColumnText(3), PID: r.ColumnInt(4),
				SeenAt: store.Time(r.ColumnInt64(6)), Draining: r.ColumnInt(8) != 0,
			}
			var about nodeAbout
			err := json.Unmarshal(r.ColumnRawText(7), &about)
			if err == nil {
				err = json.Unmarshal(r.ColumnRawText(5), &n.Workflows)
			}
			n.Groups, n.Requirements, n.TTL, n.Bodies = about.Groups, about.Needs, about.TTL, about.Bodies
			n.Tasks, n.Lost, n.Zones, n.Lacks, n.Lines = about.Tasks, about.Lost, about.Zones, about.Lacks, about.Lines
			d.Nodes = append(d.Nodes, n)
			return err
		})
		each("SELECT grp, slot, epoch, node, boot, until_at FROM stet_leases WHERE node<>'' ORDER BY grp, slot",
			func(r *sqlite3.Stmt) error {
				d.Leases = append(d.Leases, store.Lease{Shard: store.Shard{Group: r.ColumnText(0), Slot: r.ColumnInt(1)},
					Epoch: r.ColumnInt64(2), Node: r.ColumnText(3), Boot: r.ColumnText(4), Until: store.Time(r.ColumnInt64(5))})
				return nil
			})
		return err
	})
	return d, err
}

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	var snapshots []store.Snapshot
	var left []store.RunNo
	bytes := 0
	err := s.read.do(ctx, "load runs", func(c *conn) error {
		for i, no := range runs {
			if bytes >= store.LoadBytes {
				left = runs[i:]
				return nil
			}
			run, err := c.runByNo(no)
			if err != nil {
				return err
			}
			if run.No == 0 {
				continue
			}
			snap := store.Snapshot{Run: run}
			if err := c.loadEntries(&snap); err != nil {
				return err
			}
			if snap.Items, err = c.open(no); err != nil {
				return err
			}
			snapshots = append(snapshots, snap)
			bytes += snap.Bytes()
			if err := c.breathe(); err != nil {
				return err
			}
		}
		return nil
	})
	return snapshots, left, err
}

func (c *conn) loadEntries(snap *store.Snapshot) error {
	return c.each("SELECT "+entryColumns+", val FROM stet_entries WHERE run_no=? AND incarnation=? ORDER BY loc",
		[]any{int64(snap.Run.No), snap.Run.Incarnation}, func(r *sqlite3.Stmt) error {
			e := scanEntry(r)
			if e.Size < store.LargeValue {
				e.Value = value(r, entryWidth)
			}
			snap.Entries = append(snap.Entries, e)
			return nil
		})
}

// History implements store.Store.
func (s *Store) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	limit := q.Limit
	if limit <= 0 {
		limit = -1
	}
	var entries []store.Entry
	err := s.read.do(ctx, "read a history", func(c *conn) error {
		scan := func(r *sqlite3.Stmt) error {
			e := scanEntry(r)
			if q.Values && e.Size < store.LargeValue {
				e.Value = value(r, entryWidth)
			}
			entries = append(entries, e)
			return nil
		}
		const query = "SELECT " + entryColumns + ", val FROM stet_entries WHERE run_no=?1 AND incarnation=?2 AND loc>?3 "
		if q.Locs == nil {
			if err := c.each(query+"ORDER BY loc LIMIT ?4",
				[]any{int64(q.Run), q.Incarnation, []byte(q.After), limit}, scan); err != nil {
				return err
			}
		} else {
			locs := slices.Compact(slices.Sorted(slices.Values(q.Locs)))
			for _, loc := range locs {
				if err := c.each(query+"AND loc=?4",
					[]any{int64(q.Run), q.Incarnation, []byte(q.After), []byte(loc)}, scan); err != nil {
					return err
				}
				if limit > 0 && len(entries) == limit {
					break
				}
			}
		}
		for i := range entries {
			if e := &entries[i]; q.Values && e.Size >= store.LargeValue {
				if _, err := c.row("SELECT val FROM stet_blobs WHERE run_no=? AND incarnation=? AND loc=?",
					[]any{int64(q.Run), q.Incarnation, []byte(e.Loc)}, &e.Value); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return entries, err
}

// Inbox implements store.Store.
func (s *Store) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	var items []store.Item
	err := s.read.do(ctx, "read an inbox", func(c *conn) error {
		if len(ids) == 0 {
			return c.each(`SELECT `+itemHeads+` FROM stet_inbox i
				WHERE state IN ({new},{seen}) AND state<{consumed} AND run_no=? ORDER BY item_no`, []any{int64(run)},
				func(r *sqlite3.Stmt) error {
					items = append(items, scanHead(r))
					return nil
				})
		}
		text, err := json.Marshal(ids)
		if err != nil {
			return err
		}
		return c.each(`SELECT `+itemColumns+` FROM stet_inbox i
			WHERE run_no=? AND item_id IN (SELECT value FROM json_each(?)) ORDER BY item_no`,
			[]any{int64(run), string(text)}, func(r *sqlite3.Stmt) error {
				items = append(items, scanItem(r))
				return nil
			})
	})
	return items, err
}

// Pending implements store.Store.
func (s *Store) Pending(ctx context.Context, q store.PendingQuery) (sum store.Pending, err error) {
	from, args := "stet_inbox WHERE state IN ({new},{seen}) AND state<{consumed} AND run_no=?", []any{int64(q.Run)}
	switch updates := len(q.Kinds) == 1 && q.Kinds[0] == store.ItemUpdate; {
	case updates: // an index has those without an answer
		from = "stet_inbox INDEXED BY stet_inbox_unanswered WHERE kind={update} AND verdict IS NULL AND " +
			"state<{consumed} AND run_no=?"
	case q.Kinds != nil:
		numbers := make([]int, len(q.Kinds))
		for i, kind := range q.Kinds {
			numbers[i] = int(kind)
		}
		text, err := json.Marshal(numbers)
		if err != nil {
			return sum, err
		}
		from, args = from+" AND kind IN (SELECT value FROM json_each(?))", append(args, string(text))
	}
	if q.Name != "" {
		from, args = from+" AND name=?", append(args, q.Name)
	}
	err = s.read.do(ctx, "count an inbox", func(c *conn) error {
		var items, last int64
		_, err := c.row("SELECT count(*), coalesce(sum(length(val)), 0), coalesce(max(item_no), 0) FROM "+from, args, &items,
			&sum.Bytes, &last)
		if sum.Items = int(items); err != nil || items == 0 {
			return err
		}
		_, err = c.row("SELECT item_id FROM stet_inbox WHERE item_no=?", []any{last}, &sum.Last)
		return err
	})
	return sum, err
}
