package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Describe implements store.Store.
func (s *Store) Describe(ctx context.Context) (store.Description, error) {
	d := store.Description{ID: s.id, Kind: "postgres", Schema: s.version, Slots: s.slots, Durable: s.durable}
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

// loadEntries reads the entries of runs, run by run in the order of the index: an order over all
// runs would make the server sort all histories, values and all, which are larger than its
// memory for that, before it sends the first row.
var loadEntries = "SELECT e.run_no, " + entrySmall + ` FROM unnest($1::bigint[]) AS q(run_no), LATERAL (
		SELECT r.run_no, r.incarnation FROM stet.runs r WHERE r.run_no=q.run_no OFFSET 0) r, LATERAL (
		SELECT * FROM stet.entries e WHERE e.run_no=r.run_no AND e.incarnation=r.incarnation ORDER BY e.loc OFFSET 0) e`

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, error) {
	list := numbers(runs)
	found := make(map[store.RunNo]*store.Snapshot, len(runs))
	err := s.read(ctx, "load runs", func(t *tx) error {
		err := t.each("SELECT "+runValues+" FROM stet.runs r WHERE r.run_no=ANY($1::bigint[])", []any{list},
			func(scan func(...any) error) error {
				run, err := scanRun(scan)
				found[run.No] = &store.Snapshot{Run: run}
				return err
			})
		if err != nil || len(found) == 0 {
			return err
		}
		err = t.each(loadEntries, []any{list}, func(scan func(...any) error) error {
			var no int64
			e, err := scanEntry(scan, &no)
			if err == nil {
				found[store.RunNo(no)].Entries = append(found[store.RunNo(no)].Entries, e)
			}
			return err
		})
		if err != nil {
			return err
		}
		return t.each("SELECT "+itemHeads+`, i.run_no FROM stet.inbox i WHERE i.run_no=ANY($1::bigint[])
			AND i.state<{consumed}
			UNION ALL SELECT `+itemHeads+`, i.run_no FROM stet.inbox i WHERE i.run_no=ANY($1::bigint[]) AND i.kind={update}
				AND i.verdict IS NULL AND i.state>={consumed}
			ORDER BY 16, 1`, []any{list}, func(scan func(...any) error) error {
			var no int64
			it, err := scanHead(scan, &no)
			if snap := found[store.RunNo(no)]; err == nil && snap != nil {
				snap.Items = append(snap.Items, it)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	var snapshots []store.Snapshot
	for _, no := range runs {
		if snap := found[no]; snap != nil {
			snapshots = append(snapshots, *snap)
		}
	}
	return snapshots, nil
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
