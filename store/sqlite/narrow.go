package sqlite

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// A filter may be the meeting of several sets of runs, of which each has an index: those of a tag, of workflows and
// statuses, of a beginning of the ID, of a time of the end. Which is the smallest is looked up, and not estimated: the
// file has no statistics.

// defaultSorted bounds the runs that a list finds in another order than its own, and then sorts.
const defaultSorted = 10_000

// lead says which index a search begins with. The zero lead is that of the filter's first tag, or of its workflows and
// statuses, or of the numbers.
type lead struct {
	nos     []store.RunNo // the search is among these runs alone; nil: among all
	one     bool          // the search is for one number after the other
	key     string        // the tag that leads
	listing bool          // workflows and statuses lead, and tags do not
	marked  bool          // marks lead, and tags do not
	ids     bool          // a beginning of the ID leads
}

// few returns the numbers that a query finds; nil: there are more than a bound.
func (c *conn) few(most int, query string, args ...any) ([]store.RunNo, error) {
	nos := []store.RunNo{}
	err := c.each(query+" LIMIT ?", append(args, most+1), func(r *sqlite3.Stmt) error {
		nos = append(nos, store.RunNo(r.ColumnInt64(0)))
		return nil
	})
	if len(nos) > most {
		nos = nil
	}
	return nos, err
}

// count returns how many rows a query finds, at most a bound.
func (c *conn) count(most int, query string, args ...any) (n int64, err error) {
	_, err = c.row("SELECT count(*) FROM ("+query+" LIMIT ?)", append(args, most), &n)
	return n, err
}

const (
	runsMarked = "SELECT run_no FROM stet_runs INDEXED BY stet_runs_marked WHERE marks&47<>0"
	runsTagged = "SELECT t.tagged FROM json_each(?) AS v CROSS JOIN stet_tags AS t ON t.key=? AND t.value=v.value"
	runsListed = `SELECT r.run_no FROM json_each(?) AS w CROSS JOIN json_each(?) AS s CROSS JOIN stet_runs AS r
		INDEXED BY stet_runs_listing ON r.workflow=w.value AND r.status=s.value`
	// The time comes before the 0 that the index asks for: the range begins with the first of both.
	runsEnded = `SELECT r.run_no FROM json_each(?) AS w CROSS JOIN json_each(?) AS s CROSS JOIN stet_runs AS r
		INDEXED BY %s ON r.workflow=w.value AND r.status=s.value WHERE r.ended>=? AND r.ended<? AND r.ended>0 AND r.%s`
)

// begins returns the query of the runs whose IDs begin with a text.
func begins(prefix string) (query string, args []any) {
	query, args = "SELECT p.run_no AS begun FROM stet_runs AS p WHERE p.id>=?", []any{prefix}
	if after := afterPrefix(prefix); after != "" {
		query, args = query+" AND p.id<?", append(args, after)
	}
	return query, args
}

// asJSON returns a list that queries read by json_each.
func asJSON[T any](list []T) (string, error) {
	if list == nil {
		list = []T{}
	}
	text, err := json.Marshal(list)
	return string(text), err
}

// numbersOf returns the statuses of a filter as JSON: all if it has none. ended: only those of runs that have ended.
func numbersOf(f *store.Filter, ended bool) (string, error) {
	statuses := f.Statuses
	if len(statuses) == 0 {
		statuses = store.AllStatuses()
	}
	var numbers []int
	for _, s := range statuses {
		if n := int(s); (!ended || s.Terminal()) && !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	return asJSON(numbers)
}

// narrow returns the few runs among which a list can be sought: those of a beginning of the ID or of a time of the end;
// for a list by ends also those of a tag.
func (c *conn) narrow(f *store.Filter, most int) (l lead, err error) {
	if len(f.IDs)+len(f.Nos)+len(f.Claimed) > 0 || f.Parent != 0 {
		return l, nil
	}
	if f.IDPrefix != "" {
		query, args := begins(f.IDPrefix)
		if l.nos, err = c.few(most, query, args...); err != nil || l.nos != nil {
			return l, err
		}
	}
	if !f.ByEnded && f.EndedFrom|f.EndedBefore != 0 {
		if l.nos, err = c.fewEnded(f, most); err != nil || l.nos != nil {
			return l, err
		}
	}
	if !f.ByEnded || len(f.Tags) == 0 {
		return lead{}, nil
	}
	for bound := min(1<<10, most); ; bound = min(bound<<4, most) { // a rare tag is found before a frequent one is read
		for key, values := range f.TagValues() {
			list, err := asJSON(values)
			if err != nil {
				return l, err
			}
			if l.nos, err = c.few(bound, runsTagged, list, key); err != nil || l.nos != nil {
				return l, err
			}
		}
		if bound == most {
			break
		}
	}
	return lead{listing: true}, nil
}

// fewEnded returns the runs of a filter's workflows and statuses that have ended in its time; nil: there are many.
func (c *conn) fewEnded(f *store.Filter, most int) ([]store.RunNo, error) {
	workflows, err := c.listedWorkflows(f)
	if err != nil {
		return nil, err
	}
	statuses, err := numbersOf(f, true)
	if err != nil {
		return nil, err
	}
	nos := []store.RunNo{}
	for index, kind := range endIndexes {
		found, err := c.few(most-len(nos), fmt.Sprintf(runsEnded, index, kind), workflows, statuses, int64(f.EndedFrom),
			endBefore(f))
		if err != nil || found == nil {
			return nil, err
		}
		nos = append(nos, found...)
	}
	return nos, nil
}

// endBefore returns the time before which the runs of a filter have ended.
func endBefore(f *store.Filter) int64 {
	if f.EndedBefore != 0 {
		return int64(f.EndedBefore)
	}
	return math.MaxInt64
}

// rarest returns the lead of a count: the tag or the listing that the fewest runs have.
func (c *conn) rarest(f *store.Filter, sorted int) (l lead, err error) {
	if len(f.IDs)+len(f.Nos)+len(f.Claimed) > 0 || f.Parent != 0 {
		return l, nil
	}
	if f.IDPrefix != "" {
		query, args := begins(f.IDPrefix)
		if l.nos, err = c.few(sorted, query, args...); err != nil || l.nos != nil {
			return l, err
		}
	}
	if len(f.Tags) == 0 {
		return lead{ids: f.IDPrefix != ""}, nil
	}
	values := f.TagValues()
	keys := slices.Sorted(maps.Keys(values))
	// As soon as one ends below the bound it is the rarest, or close to it.
	for most := 1 << 10; ; most <<= 4 {
		best, fewest := lead{}, int64(most)
		note := func(l lead, query string, args ...any) error {
			n, err := c.count(most, query, args...)
			if n < fewest {
				best, fewest = l, n
			}
			return err
		}
		for _, key := range keys {
			list, err := asJSON(values[key])
			if err == nil {
				err = note(lead{key: key}, runsTagged, list, key)
			}
			if err != nil {
				return l, err
			}
		}
		if len(f.Workflows)+len(f.Statuses) > 0 {
			workflows, err := c.listedWorkflows(f)
			if err != nil {
				return l, err
			}
			statuses, err := numbersOf(f, false)
			if err == nil {
				err = note(lead{listing: true}, runsListed, workflows, statuses)
			}
			if err != nil {
				return l, err
			}
		}
		if f.Marks&^store.Held != 0 {
			if err := note(lead{marked: true}, runsMarked); err != nil {
				return l, err
			}
		}
		if best.key != "" || best.listing || best.marked {
			return best, nil
		}
		if err := c.breathe(); err != nil {
			return l, err
		}
	}
}

// meets reports whether a list is the meeting of several parts of indexes that have their runs in the order of their
// numbers, or of several values of a tag: it leaps from one to the other, see leap.
func meets(f *store.Filter) bool {
	if f.ByEnded || len(f.IDs)+len(f.Nos)+len(f.Claimed) > 0 || f.Parent != 0 || len(f.Tags) == 0 {
		return false
	}
	return len(f.Tags) > 1 || len(f.Workflows)+len(f.Statuses) > 0 || f.Marks&^store.Held != 0
}

// part is a part of an index: its query returns the highest number in it that is below one.
type part struct {
	query string
	args  []any // before the number
}

// parts returns the parts of which a list is the meeting.
func (c *conn) parts(f *store.Filter) (parts []part, err error) {
	values := f.TagValues()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		list, err := asJSON(values[key])
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{`SELECT max(n) FROM (SELECT (SELECT tagged FROM stet_tags
			WHERE key=?2 AND value=v.value AND tagged<?3 ORDER BY tagged DESC LIMIT 1) AS n FROM json_each(?1) AS v)`,
			[]any{list, key}})
	}
	if len(f.Workflows)+len(f.Statuses) > 0 {
		workflows, err := c.listedWorkflows(f)
		if err != nil {
			return nil, err
		}
		statuses, err := numbersOf(f, false)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{`SELECT max(n) FROM (SELECT (SELECT run_no FROM stet_runs INDEXED BY stet_runs_listing
			WHERE workflow=w.value AND status=s.value AND run_no<?3 ORDER BY run_no DESC LIMIT 1) AS n
			FROM json_each(?1) AS w CROSS JOIN json_each(?2) AS s)`, []any{workflows, statuses}})
	}
	if f.Marks&^store.Held != 0 {
		parts = append(parts, part{runsMarked + " AND run_no<? ORDER BY run_no DESC LIMIT 1", nil})
	}
	return parts, nil
}

// leap calls fn with the numbers that all parts have, from the newest below high down to low, until fn returns false.
// It reads at most about twice as many places of each part as the smallest has: from a number that one part lacks the
// others leap to the next one of that part.
func (c *conn) leap(parts []part, low, high int64, fn func(no int64) (more bool, err error)) error {
	for rounds := 1; high > low; rounds++ {
		least, all := high-1, true
		for i := range parts {
			var no int64 // of NULL: 0
			if _, err := c.row(parts[i].query, append(slices.Clip(parts[i].args), least+1), &no); err != nil {
				return err
			}
			if no < low {
				return nil
			}
			all = all && (i == 0 || no == least)
			least = no
		}
		if high = least + 1; all {
			if more, err := fn(least); err != nil || !more {
				return err
			}
			high = least
		}
		if rounds%1000 == 0 {
			if err := c.breathe(); err != nil {
				return err
			}
		}
	}
	return nil
}

// listMeeting lists what several parts of indexes have in common.
func (s *Store) listMeeting(c *conn, f *store.Filter, limit int, below store.RunNo, page *store.Page) error {
	parts, err := c.parts(f)
	if err != nil {
		return err
	}
	rest := *f // the parts have these
	rest.Tags, rest.Statuses = nil, nil
	q, err := newSearch(&rest, false, s.cfg.window, lead{one: true})
	if err != nil {
		return err
	}
	query := "SELECT " + runColumns + " FROM " + q.from + " WHERE " + q.text.String()
	low, high, err := q.numbers(c, below)
	if err != nil {
		return err
	}
	return c.leap(parts, low, high, func(no int64) (bool, error) {
		first := len(page.Runs)
		err := c.each(query, append(slices.Clip(q.args), no, no+1), func(r *sqlite3.Stmt) error {
			page.Runs = append(page.Runs, scanRun(r))
			return nil
		})
		for i := range page.Runs[first:] {
			if err == nil {
				err = c.fill(&page.Runs[first+i], f)
			}
		}
		return len(page.Runs) <= limit, err
	})
}

// countEnded counts the runs that have ended in a time, by the indexes of ends.
func (c *conn) countEnded(f *store.Filter, fn func(workflow string, status store.Status, runs int64)) error {
	workflows, err := c.listedWorkflows(f)
	if err != nil {
		return err
	}
	statuses, err := numbersOf(f, true)
	if err != nil {
		return err
	}
	for index, kind := range endIndexes {
		query := strings.Replace(fmt.Sprintf(runsEnded, index, kind), "r.run_no", "r.workflow, r.status, count(*)", 1) +
			" GROUP BY r.workflow, r.status"
		err := c.each(query, []any{workflows, statuses, int64(f.EndedFrom), endBefore(f)}, func(r *sqlite3.Stmt) error {
			fn(r.ColumnText(0), store.Status(r.ColumnInt64(1)), r.ColumnInt64(2))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
