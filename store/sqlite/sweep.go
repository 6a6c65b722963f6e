package sqlite

import (
	"context"
	"encoding/json"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// above is the number of a new row. It is NULL, so that SQLite takes the next number, unless
// the rows with the highest numbers were swept: stet_floor then has the highest of them.
func above(what, column, table string) string {
	return "(SELECT no+1 FROM stet_floor WHERE what=" + what + " AND no>=coalesce((SELECT max(" + column + ") FROM " +
		table + "), 0))"
}

// raiseFloor notes the highest numbers before rows are deleted.
const raiseFloor = `INSERT INTO stet_floor (what, no)
	SELECT 1, coalesce(max(run_no), 0) FROM stet_runs UNION ALL SELECT 2, coalesce(max(item_no), 0) FROM stet_inbox
	ORDER BY 1 ON CONFLICT (what) DO UPDATE SET no=max(no, excluded.no)`

// anythingToSweep is the only query of a pass that finds nothing.
const anythingToSweep = `SELECT
	EXISTS (SELECT 1 FROM json_each(?1) rule CROSS JOIN stet_runs r INDEXED BY stet_runs_ended
		WHERE r.workflow=rule.value->>0 AND r.status=rule.value->>1 AND r.ended>0 AND r.expires IS NULL
			AND r.ended<=rule.value->>2)
		OR EXISTS (SELECT 1 FROM stet_runs INDEXED BY stet_runs_expires WHERE expires>0 AND expires<=?2),
	EXISTS (SELECT 1 FROM stet_runs INDEXED BY stet_runs_former WHERE incarnation>swept)`

// sweepRows carries out acts of a sweep. It implements sqlstore.SweepRows.
type sweepRows struct {
	rows
	c *conn
}

func newSweep(c *conn, now store.Time) *sqlstore.Sweep {
	return &sqlstore.Sweep{
		Rows: &sweepRows{rows{querier: c}, c}, Now: now, EntryTables: entryTables, RunTables: []string{"payloads"},
	}
}

// Each implements sqlstore.SweepRows.
func (r *sweepRows) Each(text string, args []any, fn func(scan func(dest ...any) error) error) error {
	return r.c.each(form(text), args, func(s *sqlite3.Stmt) error {
		return fn(func(dest ...any) error { return scanColumns(s, dest) })
	})
}

// BeforeDelete implements sqlstore.SweepRows.
func (r *sweepRows) BeforeDelete() error {
	_, err := r.c.exec(raiseFloor)
	return err
}

// Lock implements sqlstore.SweepRows. One transaction writes at a time.
func (r *sweepRows) Lock(int64) (bool, error) { return true, nil }

// Current implements sqlstore.SweepRows.
func (r *sweepRows) Current(leases []store.Lease) (map[store.Shard]bool, error) {
	current := make(map[store.Shard]bool, len(leases))
	for i := range leases {
		ok, err := r.c.current(&leases[i])
		if err != nil {
			return nil, err
		}
		current[leases[i].Shard] = ok
	}
	return current, nil
}

// DeleteRuns implements sqlstore.SweepRows. A statement costs little more than its rows here.
func (r *sweepRows) DeleteRuns([]int64, int) (gone []int64, rows int64, full bool, err error) {
	return nil, 0, false, nil
}

// DeleteItems implements sqlstore.SweepRows.
func (r *sweepRows) DeleteItems(nos []int64) (int64, error) {
	text, err := json.Marshal(nos)
	if err != nil {
		return 0, err
	}
	return r.c.exec("DELETE FROM stet_inbox WHERE item_no IN (SELECT value FROM json_each(?))", string(text))
}

// Sweep implements store.Store. It looks with a connection that reads, and writes
// only if there is something to delete.
func (s *Store) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	if err := req.Validate(); err != nil {
		return store.Swept{}, err
	}
	var result store.Swept
	if len(req.Runs) == 0 && req.From == (store.SweepPlace{}) {
		var runs, former int64
		err := s.read.do(ctx, "look for what to sweep", func(c *conn) error {
			now := s.clock.read()
			rules, err := encodeRules(req.Rules, now)
			if err != nil {
				return err
			}
			_, err = c.row(anythingToSweep, []any{rules, int64(now)}, &runs, &former)
			return err
		})
		switch {
		case err != nil:
			return result, err
		case runs == 0 && former == 0 && !req.Items:
			req.From = store.SweepPlace{Stage: 2, Rule: len(req.Rules)} // only the leases are looked at
			result, err := s.fencedOf(ctx, &req)
			result.Next, result.Done = req.From, true
			return result, err
		case runs == 0:
			req.From = store.SweepPlace{Stage: 1, Rule: len(req.Rules)}
		}
	}
	err := s.write.do(ctx, "sweep", func(c *conn, now store.Time) error {
		w := newSweep(c, now)
		err := w.Act(&req)
		result = w.Result
		return err
	})
	if err != nil {
		return store.Swept{}, err
	}
	return result, nil
}

// encodeRules returns rules as anythingToSweep reads them.
func encodeRules(rules []store.Retention, now store.Time) (string, error) {
	list := make([][3]any, len(rules))
	for i := range rules {
		list[i] = [3]any{rules[i].Workflow, int(rules[i].Status), int64(rules[i].Before(now))}
	}
	text, err := json.Marshal(list)
	return string(text), err
}

// fencedOf returns the shards whose leases are not current.
func (s *Store) fencedOf(ctx context.Context, req *store.SweepRequest) (result store.Swept, err error) {
	err = s.read.do(ctx, "look at leases", func(c *conn) error {
		w := newSweep(c, 0)
		err := w.Leases(req.Leases)
		result.Fenced = w.Result.Fenced
		return err
	})
	return result, err
}
