package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// A list of some workflows and statuses, or of runs that have ended, is merged from as many
// parts of an index: of each the first runs are read, and none that cannot be among the first
// of all.

// endIndexes are the indexes of runs that have ended, with what their runs have in common.
var endIndexes = map[string]string{"stet_runs_ended": "expires IS NULL", "stet_runs_kept": "expires IS NOT NULL"}

// merge is a list under way.
type merge struct {
	limit  int
	sorted int           // see defaultSorted
	after  store.Place   // the list goes on there; by numbers Ended is 0
	first  []store.Place // the first of those found
}

// listMerged lists by the index of listings, or by those of ends.
func (s *Store) listMerged(ctx context.Context, f *store.Filter) (page store.Page, err error) {
	m := merge{sorted: s.cfg.sorted}
	if f.ByEnded {
		m.limit, m.after, err = f.After()
	} else if m.limit, m.after.No, err = f.Bounds(); m.after.No == 0 {
		m.after.No = math.MaxInt64
	}
	if err != nil {
		return store.Page{}, err
	}
	err = s.read.do(ctx, "list runs", func(c *conn) error {
		if err := m.gather(c, f); err != nil {
			return err
		}
		for _, p := range m.first[:min(len(m.first), m.limit)] {
			one := []any{int64(p.No)}
			err := c.each("SELECT "+runColumns+" FROM stet_runs WHERE run_no=?", one, func(r *sqlite3.Stmt) error {
				page.Runs = append(page.Runs, scanRun(r))
				return nil
			})
			if err != nil {
				return err
			}
			if err := c.fill(&page.Runs[len(page.Runs)-1], f); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return store.Page{}, err
	}
	if last := m.limit - 1; len(m.first) > m.limit && f.ByEnded {
		page.Next = m.first[last].Encode()
	} else if len(m.first) > m.limit {
		page.Next = store.EncodeCursor(m.first[last].No)
	}
	return page, nil
}

// gather reads the first places of all parts.
func (m *merge) gather(c *conn, f *store.Filter) error {
	l, err := c.narrow(f, m.sorted)
	if err != nil {
		return err
	}
	named := len(f.IDs)+len(f.Nos)+len(f.Claimed) > 0 || f.Parent != 0 || l.nos != nil
	rest := *f
	if !named {
		rest.Statuses = nil
	}
	q, err := newSearch(&rest, false, 0, l)
	if err != nil {
		return err
	}
	// The search's last condition is a window of numbers. A second one would be none of the index.
	window := func(low, high store.RunNo, more ...any) []any {
		return append(append(slices.Clip(q.args), int64(low), int64(high)), more...)
	}
	if named {
		const order = " AND ended>0 AND (ended,run_no)<(?,?) ORDER BY ended DESC, run_no DESC LIMIT ?"
		return m.add(c, "SELECT ended, run_no FROM "+q.from+" WHERE "+q.text.String()+order,
			window(0, math.MaxInt64, m.after.Ended, int64(m.after.No), m.limit+1))
	}
	names, err := c.listedWorkflows(f)
	if err != nil {
		return err
	}
	var workflows []string
	if err := json.Unmarshal([]byte(names), &workflows); err != nil {
		return err
	}
	statuses := f.Statuses
	if len(statuses) == 0 {
		statuses = store.AllStatuses()
	}
	statuses = slices.Clone(statuses)
	slices.Sort(statuses)
	for _, workflow := range workflows {
		for _, status := range slices.Compact(statuses) {
			switch least := m.least(); {
			case !f.ByEnded:
				const listing = "SELECT 0, run_no FROM stet_runs INDEXED BY stet_runs_listing WHERE "
				err = m.add(c, listing+q.text.String()+" AND workflow=? AND status=? ORDER BY run_no DESC LIMIT ?",
					window(least.No+1, m.after.No, workflow, int(status), m.limit+1))
			case status.Terminal():
				for index, kind := range endIndexes {
					err = errors.Join(err, m.add(c, "SELECT ended, run_no FROM stet_runs INDEXED BY "+index+" WHERE "+q.text.String()+
						" AND workflow=? AND status=? AND ended>0 AND "+kind+
						" AND ended<=? AND (ended,run_no)<(?,?) ORDER BY ended DESC, run_no DESC LIMIT ?",
						window(0, math.MaxInt64, workflow, int(status), m.after.Ended, m.after.Ended, int64(m.after.No), m.limit+1)))
				}
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// least returns the place that others must stand before to be among the first.
func (m *merge) least() store.Place {
	if len(m.first) <= m.limit {
		return store.Place{}
	}
	return m.first[m.limit]
}

// add reads places, and keeps the first of all.
func (m *merge) add(c *conn, query string, args []any) error {
	err := c.each(query, args, func(r *sqlite3.Stmt) error {
		m.first = append(m.first, store.Place{Ended: store.Time(r.ColumnInt64(0)), No: store.RunNo(r.ColumnInt64(1))})
		return nil
	})
	slices.SortFunc(m.first, func(a, b store.Place) int {
		return cmp.Or(cmp.Compare(b.Ended, a.Ended), cmp.Compare(b.No, a.No))
	})
	m.first = m.first[:min(len(m.first), m.limit+1)]
	return err
}
