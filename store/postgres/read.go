package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Describe implements store.Store.
func (s *Store) Describe(ctx context.Context) (store.Description, error) {
	d := store.Description{ID: s.id, Kind: "postgres", Schema: s.version, Slots: s.slots, Lines: true,
		Durable: s.durable}
	floor, test := s.times()
	lengths := map[[2]string]store.Delay{} // of leases, by node and boot
	err := s.single(on(ctx, s.leasing), "describe the store", func(t *tx) error {
		// One statement: names, nodes and leases are of one moment.
		return t.each(`SELECT 0, name, NULL::bytea, '', '', 0::bigint, 0::bigint, `+nowExpr+` AS n FROM stet.workflows
			UNION ALL SELECT 1, node, info, boot, '', draining::integer, seen_at, 0 FROM stet.nodes WHERE listed
			UNION ALL SELECT 2, grp, NULL, node, boot, epoch, until_at, slot FROM stet.leases WHERE node<>''
			UNION ALL SELECT 3, '', NULL, '', '', 0, 0, `+nowExpr+`
			ORDER BY 1, 2, 8`, []any{floor, test}, func(scan func(...any) error) error {
			var what, number, at, last int64
			var name, second, third string
			var info []byte
			if err := scan(&what, &name, &info, &second, &third, &number, &at, &last); err != nil {
				return err
			}
			switch what {
			case 0:
				d.Workflows = append(d.Workflows, name)
			case 1:
				var n store.Node
				if err := json.Unmarshal(info, &n); err != nil {
					return fmt.Errorf("%w: the row of node %s cannot be read: %w", store.ErrDamaged, name, err)
				}
				n.ID, n.Boot, n.SeenAt, n.Draining = name, second, store.Time(at), number != 0
				d.Nodes = append(d.Nodes, n)
				lengths[[2]string{n.ID, n.Boot}] = n.TTL
			case 2:
				d.Leases = append(d.Leases, store.Lease{Shard: store.Shard{Group: name, Slot: int(last)},
					Epoch: number, Node: second, Boot: third, Until: store.Time(at)})
			case 3:
				d.Now = store.Time(last)
			}
			return nil
		})
	})
	for i := range d.Nodes {
		n := &d.Nodes[i]
		n.Gone = s.witnesses.Dead(storekit.Boot{Node: n.ID, Boot: n.Boot})
	}
	for i := range d.Leases {
		l := &d.Leases[i]
		dead := s.witnesses.Dead(storekit.Boot{Node: l.Node, Boot: l.Boot})
		if s.ahead.Look(l, d.Now, lengths[[2]string{l.Node, l.Boot}]) || dead {
			l.Until = min(l.Until, d.Now)
		}
	}
	s.observe(d.Now)
	return d, err
}

// loadRuns reads runs in their order, up to the one with which they have so many bytes.
const loadRuns = `SELECT ` + runValues + ` FROM (
		SELECT l.run_no, sum(l.size) OVER (ORDER BY q.place) - l.size AS before
		FROM unnest($1::bigint[]) WITH ORDINALITY AS q(run_no, place), LATERAL (
			SELECT r.run_no, coalesce(octet_length(r.input), 0) + coalesce(octet_length(r.output), 0) AS size
			FROM stet.runs r WHERE r.run_no=q.run_no OFFSET 0) l OFFSET 0) b, LATERAL (
		SELECT * FROM stet.runs r WHERE r.run_no=b.run_no AND b.before<$2::bigint OFFSET 0) r`

// loadEntries reads the entries of runs, run by run in the order of the index: an order over all
// runs would make the server sort all histories, values and all, which are larger than its
// memory for that, before it sends the first row.
var loadEntries = "SELECT e.run_no, " + entrySmall + ` FROM unnest($1::bigint[]) AS q(run_no), LATERAL (
		SELECT r.run_no, r.incarnation FROM stet.runs r WHERE r.run_no=q.run_no OFFSET 0) r, LATERAL (
		SELECT * FROM stet.entries e WHERE e.run_no=r.run_no AND e.incarnation=r.incarnation ORDER BY e.loc OFFSET 0) e
	LIMIT $2::bigint`

// loadItems reads the items of runs, run by run.
var loadItems = "SELECT " + itemHeads + `, i.run_no FROM unnest($1::bigint[]) AS q(run_no), LATERAL (
		SELECT * FROM stet.inbox i WHERE i.run_no=q.run_no AND i.state<{consumed}
		UNION ALL SELECT * FROM stet.inbox i WHERE i.run_no=q.run_no AND i.kind={update}
			AND i.verdict IS NULL AND i.state>={consumed}
		ORDER BY item_no OFFSET 0) i
	LIMIT $2::bigint`

// loadRows bounds the rows of a statement that loads several runs. Each is smaller than about
// store.LargeValue.
const loadRows = 8192

// loading is a load under way.
type loading struct {
	*tx
	found map[store.RunNo]*store.Snapshot
	sizes map[store.RunNo]int
	most  int // bytes from which on no further run is added
}

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	return load(ctx, s, runs, store.LoadBytes)
}

// load is Load whose answer is not added to once it has most bytes.
func load(ctx context.Context, s *Store, runs []store.RunNo, most int) ([]store.Snapshot, []store.RunNo, error) {
	var snapshots []store.Snapshot
	var left []store.RunNo
	err := s.read(ctx, "load runs", func(t *tx) error {
		l := &loading{t, make(map[store.RunNo]*store.Snapshot, len(runs)), make(map[store.RunNo]int, len(runs)), most}
		beyond, err := l.runs(runs)
		if err != nil || len(l.found) == 0 {
			return err
		}
		whole := slices.DeleteFunc(slices.Clone(runs), func(no store.RunNo) bool { return l.found[no] == nil })
		if whole, err = l.whole(loadEntries, whole, l.entry); err != nil {
			return err
		}
		if whole, err = l.whole(loadItems, whole, l.item); err != nil {
			return err
		}
		loaded := make(map[store.RunNo]bool, len(whole))
		for _, no := range whole {
			loaded[no] = true
		}
		for _, no := range runs[:len(runs)-len(beyond)] {
			switch {
			case loaded[no]:
				snapshots = append(snapshots, *l.found[no])
			case l.found[no] != nil:
				left = append(left, no)
			}
		}
		left = append(left, beyond...)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return snapshots, left, nil
}

// runs reads the rows of runs, and returns the last ones, which it leaves. Some of these may not exist.
func (l *loading) runs(runs []store.RunNo) (beyond []store.RunNo, err error) {
	bytes := 0
	err = l.each(loadRuns, []any{numbers(runs), l.most}, func(scan func(...any) error) error {
		run, err := scanRun(scan)
		l.found[run.No] = &store.Snapshot{Run: run}
		l.sizes[run.No] = len(run.Input) + len(run.Output)
		bytes += l.sizes[run.No]
		return err
	})
	end := len(runs)
	if bytes >= l.most {
		for l.found[runs[end-1]] == nil {
			end--
		}
	}
	return runs[end:], err
}

// errEnough ends a statement that loads.
var errEnough = errors.New("enough is loaded")

// whole reads rows of runs, and returns the first runs, of which all rows were read: one at least.
// The statement returns the rows run by run, in the order of runs.
func (l *loading) whole(
	sql string, runs []store.RunNo, row func(func(...any) error) (store.RunNo, int, error),
) ([]store.RunNo, error) {
	limit := loadRows
	if len(runs) == 1 {
		limit = math.MaxInt
	}
	rows, at, bytes := 0, -1, 0 // at is the run of the last row
	err := l.each(sql, []any{numbers(runs), limit}, func(scan func(...any) error) error {
		no, size, err := row(scan)
		if err != nil {
			return err
		}
		rows++
		for begun := at; at < 0 || runs[at] != no; {
			if at++; at == len(runs) {
				return fmt.Errorf("rows of run %d came after those of run %d, which was requested later", no, runs[begun])
			}
			if bytes >= l.most {
				return errEnough
			}
			bytes += l.sizes[runs[at]]
		}
		bytes += size
		l.sizes[no] += size
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return runs[:at], nil
	case err != nil || rows < limit:
		return runs, err
	case at > 0:
		return runs[:at], nil // the last one may have more rows
	}
	first := l.found[runs[0]]
	if first.Items = nil; sql == loadEntries {
		first.Entries = nil
	}
	return l.whole(sql, runs[:1], row)
}

// entry reads an entry, and returns its run and size.
func (l *loading) entry(scan func(...any) error) (store.RunNo, int, error) {
	var no int64
	e, err := scanEntry(scan, &no)
	if err != nil {
		return 0, 0, err
	}
	snap := l.found[store.RunNo(no)]
	snap.Entries = append(snap.Entries, e)
	return snap.Run.No, e.Bytes(), nil
}

// item reads an item, and returns its run and size.
func (l *loading) item(scan func(...any) error) (store.RunNo, int, error) {
	var no int64
	it, err := scanHead(scan, &no)
	if err != nil {
		return 0, 0, err
	}
	snap := l.found[store.RunNo(no)]
	snap.Items = append(snap.Items, it)
	return snap.Run.No, it.Bytes(), nil
}

// History implements store.Store.
func (s *Store) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	c := &search{}
	c.and("e.run_no=?", int64(q.Run))
	c.and("e.incarnation=?", int64(q.Incarnation))
	if q.After != "" {
		c.and("e.loc>?", []byte(q.After))
	}
	if q.Locs != nil {
		locs := make([][]byte, len(q.Locs))
		for i, loc := range q.Locs {
			locs[i] = []byte(loc)
		}
		c.and("e.loc=ANY(?::bytea[])", locs)
	}
	columns, limit := entryNoVals, ""
	if q.Values {
		columns = entryValue
	}
	if q.Limit > 0 {
		limit = fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	var entries []store.Entry
	err := s.single(ctx, "read a history", func(t *tx) error {
		return t.each("SELECT "+columns+" FROM stet.entries e WHERE "+c.where()+" ORDER BY e.loc"+limit, c.args,
			func(scan func(...any) error) error {
				e, err := scanEntry(scan)
				entries = append(entries, e)
				return err
			})
	})
	return entries, err
}

// Inbox implements store.Store.
func (s *Store) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	columns, which, args := itemHeads, "i.state<{consumed}", []any{run}
	if len(ids) > 0 {
		columns, which, args = itemColumns+", 0", "i.item_id=ANY($2::text[])", append(args, possible(ids))
	}
	var items []store.Item
	err := s.single(ctx, "read an inbox", func(t *tx) error {
		return t.each("SELECT "+columns+" FROM stet.inbox i WHERE i.run_no=$1 AND "+which+" ORDER BY i.item_no", args,
			func(scan func(...any) error) error {
				it, err := scanHead(scan)
				items = append(items, it)
				return err
			})
	})
	return items, err
}

// Pending implements store.Store.
func (s *Store) Pending(ctx context.Context, q store.PendingQuery) (sum store.Pending, err error) {
	which, args := "i.state<{consumed}", []any{q.Run}
	if len(q.Kinds) == 1 && q.Kinds[0] == store.ItemUpdate { // an index has those without an answer
		which = "i.kind={update} AND i.verdict IS NULL AND i.state+0<{consumed}"
	} else if q.Kinds != nil {
		args = append(args, numbers(q.Kinds))
		which += " AND i.kind=ANY($2::bigint[])"
	}
	if q.Name != "" {
		args = append(args, name(q.Name))
		which += fmt.Sprintf(" AND i.name=$%d::text", len(args))
	}
	err = s.single(ctx, "count an inbox", func(t *tx) error {
		var items int64
		_, err := t.row("WITH p AS MATERIALIZED (SELECT count(*) AS items, coalesce(sum(length(i.val)), 0)::bigint AS bytes,"+
			" max(i.item_no) AS last FROM stet.inbox i WHERE i.run_no=$1 AND "+which+") SELECT p.items, p.bytes,"+
			" coalesce((SELECT l.item_id FROM stet.inbox l WHERE l.item_no=p.last), '') FROM p", args, &items, &sum.Bytes,
			&sum.Last)
		sum.Items = int(items)
		return err
	})
	return sum, err
}

// Audit implements store.Store.
func (s *Store) Audit(ctx context.Context, run store.RunNo) ([]store.Audit, error) {
	var audit []store.Audit
	err := s.single(ctx, "read what was done to a run", func(t *tx) error {
		return t.each("SELECT no, at, who, verb, why, detail FROM stet.audit WHERE run_no=$1 ORDER BY no", []any{run},
			func(scan func(...any) error) error {
				var a store.Audit
				var why, detail []byte
				err := scan(&a.No, (*int64)(&a.Time), &a.Who, &a.Verb, &why, &detail)
				a.Why, a.Detail = string(why), string(detail)
				audit = append(audit, a)
				return err
			})
	})
	return audit, err
}
