package sqlite

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/storekit"
)

// defaultWindow is how many run numbers one query looks at, so that a search
// through millions of runs is many short read transactions.
const defaultWindow = 1 << 17

// search is a filter as a query.
type search struct {
	from   string
	text   strings.Builder
	args   []any
	window int64
	direct bool       // the filter names its runs, or an index has few: no windows
	since  store.Time // see sqlstore.CreatedWithin
	before store.Time
	tags   bool // the first key of the tags leads the query
}

func (s *search) and(condition string, args ...any) {
	if s.text.Len() > 0 {
		s.text.WriteString(" AND ")
	}
	s.text.WriteString(condition)
	s.args = append(s.args, args...)
}

// in adds that a column has one of the values, which JSON can hold.
func (s *search) in(column string, values any) error {
	text, err := json.Marshal(values)
	s.and(column+" IN (SELECT value FROM json_each(?))", string(text))
	return err
}

// workflowNames gives the names of the workflows that have runs, by as many seeks in the
// index.
const workflowNames = `WITH RECURSIVE w(name) AS (SELECT min(workflow) FROM stet_runs
	UNION ALL SELECT (SELECT min(workflow) FROM stet_runs WHERE workflow>w.name) FROM w WHERE w.name IS NOT NULL)
	SELECT name FROM w WHERE name IS NOT NULL`

const everyWorkflow = "workflow IN (" + workflowNames + ")"

// claimedIn gives the runs that are claimed in some shards, by a seek for each.
const claimedIn = `run_no IN (SELECT a.run_no FROM json_each(?) AS w CROSS JOIN stet_runs AS a
	INDEXED BY stet_runs_claimed ON a.grp=w.value->>0 AND a.slot=w.value->>1 WHERE a.ready=2)`

// newSearch returns the query of a filter, which begins with the lead. listed says that the
// index of workflows and statuses is to be used even if the filter names none.
func newSearch(f *store.Filter, listed bool, window int64, l lead) (*search, error) {
	s := &search{from: "stet_runs", window: window}
	s.direct = len(f.IDs)+len(f.Nos)+len(f.Claimed) > 0 || l.nos != nil || l.one || l.ids
	s.and("true")
	if l.ids {
		query, args := begins(f.IDPrefix)
		s.from, s.args = "("+query+") CROSS JOIN stet_runs ON run_no=begun", args
	}
	if !s.direct || l.one {
		s.since, s.before = sqlstore.CreatedWithin(f)
	}
	marked := f.Marks&^store.Held != 0 && !s.direct && f.Parent == 0 && (len(f.Tags) == 0 || l.marked)
	if marked {
		s.from += " INDEXED BY stet_runs_marked"
		s.direct = true
		s.and("marks&47<>0")
	}
	s.tags = len(f.Tags) > 0 && !s.direct && f.Parent == 0 && !l.listing
	var errs [6]error
	errs[4] = s.tagged(f, l.key)
	if l.nos != nil {
		errs[5] = s.in("run_no", l.nos)
	}
	if len(f.IDs) > 0 {
		errs[0] = s.in("id", f.IDs)
	}
	if len(f.Nos) > 0 {
		errs[1] = s.in("run_no", f.Nos)
	}
	if listed = listed || len(f.Workflows)+len(f.Statuses) > 0; listed {
		if !s.direct && f.Parent == 0 && !s.tags {
			s.from += " INDEXED BY stet_runs_listing"
		}
		if len(f.Workflows) > 0 {
			errs[2] = s.in("workflow", f.Workflows)
		} else {
			s.and(everyWorkflow)
		}
		statuses := f.Statuses
		if len(statuses) == 0 {
			statuses = store.AllStatuses()
		}
		numbers := make([]int, len(statuses))
		for i, status := range statuses {
			numbers[i] = int(status)
		}
		errs[3] = s.in("status", numbers)
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	if len(f.Claimed) > 0 {
		shards := make([][2]any, len(f.Claimed))
		for i, shard := range f.Claimed {
			shards[i] = [2]any{shard.Group, shard.Slot}
		}
		text, err := json.Marshal(shards)
		if err != nil {
			return nil, err
		}
		s.and(claimedIn, string(text))
	}
	if f.HidesEntities() {
		s.and("(workflow<'" + store.EntityPrefix + "' OR workflow>='" + store.AfterEntityPrefix + "')")
	}
	if f.IDPrefix != "" {
		s.and("id>=?", f.IDPrefix)
		if after := afterPrefix(f.IDPrefix); after != "" {
			s.and("id<?", after)
		}
	}
	if f.Marks != 0 {
		s.and("marks&?=?", int(f.Marks), int(f.Marks))
	}
	if f.Parent != 0 {
		s.and("parent_no>0 AND parent_no=?", int64(f.Parent))
	}
	if f.CreatedFrom != 0 {
		s.and("created>=?", f.CreatedFrom)
	}
	if f.CreatedBefore != 0 {
		s.and("created<?", f.CreatedBefore)
	}
	if f.EndedFrom != 0 {
		s.and("ended>=?", f.EndedFrom)
	}
	if f.EndedBefore != 0 {
		s.and("ended>0 AND ended<?", f.EndedBefore)
	}
	if s.tags {
		s.and("t.tagged>=? AND t.tagged<?")
	} else {
		s.and("run_no>=? AND run_no<?")
	}
	return s, nil
}

// afterPrefix returns the least string greater than all that begin with prefix,
// "" if there is none.
func afterPrefix(prefix string) string {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	if len(b) > 0 {
		b[len(b)-1]++
	}
	return string(b)
}

// numbers returns the bounds of the numbers of what is sought below one, or of all with 0: from the first on, below the
// second.
func (s *search) numbers(c *conn, below store.RunNo) (lowest, high int64, err error) {
	lowest, high = 1, int64(below)
	if high == 0 {
		if _, err := c.row("SELECT coalesce(max(run_no), 0)+1 FROM stet_runs", nil, &high); err != nil {
			return 0, 0, err
		}
	}
	if s.since != 0 {
		if _, err := c.row(form(sqlstore.NumberAt), []any{s.since}, &lowest); err != nil {
			return 0, 0, err
		}
		lowest++
	}
	if s.before != 0 {
		var last int64
		if _, err := c.row(form(sqlstore.NumberAt), []any{s.before}, &last); err != nil {
			return 0, 0, err
		}
		high = min(high, last+1)
	}
	return lowest, high, nil
}

// windows calls fn for the windows of run numbers below the given one, or for
// all with 0, from the newest down, until fn has enough.
func (s *search) windows(c *conn, below store.RunNo, fn func(args []any) (enough bool, err error)) error {
	lowest, high, err := s.numbers(c, below)
	if err != nil {
		return err
	}
	for high > lowest {
		low := max(high-s.window, lowest)
		if s.direct {
			low = lowest
		}
		enough, err := fn(append(slices.Clip(s.args), low, high))
		if err != nil || enough {
			return err
		}
		high = low
		if err := c.breathe(); err != nil {
			return err
		}
	}
	return nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, f store.Filter) (store.Page, error) {
	if f.ByEnded || f.Plain() && len(f.Workflows)+len(f.Statuses) > 0 {
		return s.listMerged(ctx, &f)
	}
	limit, below, err := f.Bounds()
	if err != nil {
		return store.Page{}, err
	}
	var page store.Page
	err = s.read.do(ctx, "list runs", func(c *conn) error {
		l, err := c.narrow(&f, s.cfg.sorted)
		if err != nil {
			return err
		}
		if l.nos == nil && meets(&f) {
			return s.listMeeting(c, &f, limit, below, &page)
		}
		q, err := newSearch(&f, false, s.cfg.window, l)
		if err != nil {
			return err
		}
		query := "SELECT " + runColumns + " FROM " + q.from + " WHERE " + q.text.String() + " ORDER BY run_no DESC LIMIT ?"
		return q.windows(c, below, func(args []any) (bool, error) {
			first := len(page.Runs)
			err := c.each(query, append(args, limit+1-first), func(r *sqlite3.Stmt) error {
				page.Runs = append(page.Runs, scanRun(r))
				return nil
			})
			if err != nil {
				return false, err
			}
			for i := range page.Runs[first:] {
				if err := c.fill(&page.Runs[first+i], &f); err != nil {
					return false, err
				}
			}
			return len(page.Runs) > limit, nil
		})
	})
	if err != nil {
		return store.Page{}, err
	}
	if len(page.Runs) > limit {
		page.Runs = page.Runs[:limit]
		page.Next = store.EncodeCursor(page.Runs[limit-1].No)
	}
	return page, nil
}

// fill reads the values of a listed run that the filter keeps, and drops the others.
func (c *conn) fill(r *store.Run, f *store.Filter) error {
	f.Trim(r)
	return c.payloads(r, f)
}

// Count implements store.Store.
func (s *Store) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	if _, _, err := f.Bounds(); err != nil {
		return nil, err
	}
	counts := storekit.Counts{}
	err := s.read.do(ctx, "count runs", func(c *conn) error {
		if f.Most > 0 && f.Plain() {
			return c.countSome(&f, counts)
		}
		rest := f
		if rest.EndedFrom, rest.EndedBefore = 0, 0; f.EndedFrom|f.EndedBefore != 0 && rest.Plain() {
			return c.countEnded(&f, func(workflow string, status store.Status, runs int64) {
				counts[storekit.Counted{Workflow: workflow, Status: status}] += runs
			})
		}
		l, err := c.rarest(&f, s.cfg.sorted)
		if err != nil {
			return err
		}
		q, err := newSearch(&f, true, s.cfg.window, l)
		if err != nil {
			return err
		}
		query := "SELECT workflow, status, count(*) FROM " + q.from + " WHERE " + q.text.String() +
			" GROUP BY workflow, status"
		return q.windows(c, 0, func(args []any) (bool, error) {
			return false, c.each(query, args, func(r *sqlite3.Stmt) error {
				counts[storekit.Counted{Workflow: r.ColumnText(0), Status: store.Status(r.ColumnInt64(1))}] += r.ColumnInt64(2)
				return nil
			})
		})
	})
	if err != nil {
		return nil, err
	}
	return counts.Tallies(f.Most), nil
}

// someOfStatus counts runs of one status by workflow, in the order of the given names: it
// stops at a number of runs, and reads no more of the index than that.
const someOfStatus = `SELECT workflow, count(*) FROM (SELECT r.workflow FROM json_each(?) AS w CROSS JOIN stet_runs AS r
	INDEXED BY stet_runs_listing ON r.workflow=w.value AND r.status=? LIMIT ?) GROUP BY workflow`

// countSome counts what a filter selects by workflow and status, up to its bound.
func (c *conn) countSome(f *store.Filter, counts storekit.Counts) error {
	text, err := c.listedWorkflows(f)
	if err != nil {
		return err
	}
	statuses := f.Statuses
	if len(statuses) == 0 {
		statuses = store.AllStatuses()
	}
	for _, status := range statuses {
		err := c.each(someOfStatus, []any{text, int(status), f.Most + 1}, func(r *sqlite3.Stmt) error {
			counts[storekit.Counted{Workflow: r.ColumnText(0), Status: status}] = r.ColumnInt64(1)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// listedWorkflows returns the workflows that a filter selects, in their order, as JSON: those
// that it names, otherwise those that have runs and are no entities.
func (c *conn) listedWorkflows(f *store.Filter) (string, error) {
	names := slices.Clone(f.Workflows)
	if len(names) == 0 {
		if err := c.each(workflowNames, nil, func(r *sqlite3.Stmt) error {
			if name := r.ColumnText(0); !f.HidesEntities() || !store.IsEntity(name) {
				names = append(names, name)
			}
			return nil
		}); err != nil {
			return "", err
		}
	}
	slices.Sort(names)
	text, err := json.Marshal(slices.Compact(names))
	return string(text), err
}
