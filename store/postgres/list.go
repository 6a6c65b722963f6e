package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/storekit"
)

// search is a filter as the conditions of a query.
type search struct {
	conditions []string
	args       []any
	seeks      bool // the runs are found otherwise: for each of them its tags are looked up
}

// and adds a condition, whose question marks stand for the arguments.
func (s *search) and(condition string, args ...any) {
	for _, arg := range args {
		s.args = append(s.args, arg)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(s.args)), 1)
	}
	s.conditions = append(s.conditions, condition)
}

func (s *search) where() string {
	if len(s.conditions) == 0 {
		return "true"
	}
	return strings.Join(s.conditions, " AND ")
}

// newSearch returns the conditions of a filter, on the table r, among few runs; nil: among all.
func newSearch(f *store.Filter, few []store.RunNo) *search {
	s := &search{seeks: few != nil}
	if few != nil {
		s.and("r.run_no=ANY(?::bigint[])", numbers(few))
	}
	s.add(f)
	return s
}

// add adds the conditions of a filter.
func (s *search) add(f *store.Filter) {
	if f.HidesEntities() {
		s.and("(r.workflow<? OR r.workflow>=?)", store.EntityPrefix, store.AfterEntityPrefix)
	}
	if len(f.IDs) > 0 {
		s.and("r.run_no=ANY(ARRAY(SELECT a.run_no FROM stet.runs a WHERE a.id=ANY(?::text[])))", possible(f.IDs))
	}
	if len(f.Nos) > 0 {
		s.and("r.run_no=ANY(?::bigint[])", numbers(f.Nos))
	}
	if len(f.Workflows) > 0 {
		s.and("r.workflow=ANY(?::text[])", possible(f.Workflows))
	}
	if len(f.Statuses) > 0 {
		s.and("r.status=ANY(?::bigint[])", numbers(f.Statuses))
	}
	s.prefixed(f.IDPrefix)
	if f.Marks&^store.Held != 0 {
		s.and("r.marks & 47 <> 0") // so that an index serves
	}
	if f.Marks != 0 {
		s.and("r.marks&?=?", int64(f.Marks), int64(f.Marks))
	}
	if f.Parent != 0 {
		s.and("r.parent_no>0 AND r.parent_no=?", int64(f.Parent))
	}
	since, before := sqlstore.CreatedWithin(f)
	if since != 0 {
		s.and("r.run_no>("+numberAt+")", int64(since), int64(since))
	}
	if before != 0 {
		s.and("r.run_no<=("+numberAt+")", int64(before), int64(before))
	}
	if f.CreatedFrom != 0 {
		s.and("r.created>=?", int64(f.CreatedFrom))
	}
	if f.CreatedBefore != 0 {
		s.and("r.created<?", int64(f.CreatedBefore))
	}
	if f.EndedFrom != 0 {
		s.and("r.ended>=?", int64(f.EndedFrom))
	}
	if f.EndedBefore != 0 {
		s.and("r.ended>0 AND r.ended<?", int64(f.EndedBefore))
	}
	if len(f.Claimed) > 0 {
		groups, slots := make([]string, len(f.Claimed)), make([]int64, len(f.Claimed))
		for i, shard := range f.Claimed {
			groups[i], slots[i] = shard.Group, int64(shard.Slot)
		}
		// In this order they are in one index only, as in ofListing.
		s.and("r.run_no=ANY(ARRAY(SELECT c.run_no FROM unnest(?::text[], ?::bigint[]) AS w(grp, slot), LATERAL ("+
			"SELECT a.run_no FROM stet.runs a WHERE a.ready=2 AND a.grp=w.grp COLLATE \"C\" AND a.slot>=w.slot "+
			"AND a.slot<=w.slot ORDER BY a.slot) c))", groups, slots)
	}
	values := f.TagValues()
	has := "EXISTS (SELECT 1 FROM stet.tags o WHERE o.key=? AND o.value=ANY(?::text[]) AND o.tagged=r.run_no)"
	if s.seeks { // in this form the server cannot join the tags, of which it might read all
		has = "(SELECT true FROM stet.tags o WHERE o.key=? AND o.value=ANY(?::text[]) AND o.tagged=r.run_no LIMIT 1)"
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		s.and(has, name(key), possible(values[key]))
	}
}

// numberAt is sqlstore.NumberAt, which has its argument twice.
var numberAt = strings.ReplaceAll(sqlstore.NumberAt, "$1", "?")

// prefixed adds that the ID begins with a text, which may end within a character.
func (s *search) prefixed(prefix string) {
	if prefix == "" {
		return
	}
	whole := prefix
	for i := 0; i < utf8.UTFMax && whole != "" && !isText(whole); i++ {
		whole = whole[:len(whole)-1]
	}
	if whole != prefix {
		s.and("substring(convert_to(r.id, 'UTF8') FOR ?::integer)=?::bytea", int64(len(prefix)), []byte(prefix))
	}
	if whole = possible([]string{whole, impossible})[0]; whole == "" {
		return
	}
	s.and("r.id>=?", whole)
	s.and("starts_with(r.id, ?)", whole)
	if last := len(whole) - 1; whole[last] < 0x7e {
		s.and("r.id<?", whole[:last]+string(rune(whole[last]+1))) // so that an index serves
	}
}

// impossible is a name that the contract forbids.
const impossible = "\x01"

// isText reports whether the server can take a text.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// possible returns the texts that the server can take; nothing is stored under
// another. It never returns nil, which would be NULL.
func possible(list []string) []string {
	kept := make([]string, 0, len(list))
	for _, s := range list {
		if isText(s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// name returns a name to compare with, which the server can take.
func name(s string) string {
	if isText(s) {
		return s
	}
	return impossible
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, f store.Filter) (store.Page, error) {
	limit, after, err := bounds(&f)
	if err != nil {
		return store.Page{}, err
	}
	var page store.Page
	err = s.single(ctx, "list runs", func(t *tx) error {
		few, err := t.narrow(&f)
		if err != nil {
			return err
		}
		query, args := listQuery(&f, limit, after, few)
		each := t.eachFree
		switch {
		case len(f.IDs)+len(f.Nos) > 0:
			each = t.eachSteady // callers that wait for runs ask often
		case few == nil && meets(&f):
			each = t.eachOrdered
		case few != nil, f.Plain() && !f.ByEnded:
			each = t.eachListed
		}
		return each(query, args, func(scan func(...any) error) error {
			run, err := scanRun(scan)
			if !f.Values {
				run.Waits = nil
			}
			page.Runs = append(page.Runs, run)
			return err
		})
	})
	if err != nil {
		return store.Page{}, err
	}
	if len(page.Runs) > limit {
		page.Runs = page.Runs[:limit]
		if last := &page.Runs[limit-1]; f.ByEnded {
			page.Next = store.PlaceOf(last).Encode()
		} else {
			page.Next = store.EncodeCursor(last.No)
		}
	}
	return page, nil
}

// bounds returns the length of a page, and the place after which it begins: by numbers, if
// it does not begin with the first run, that without a time.
func bounds(f *store.Filter) (limit int, after store.Place, err error) {
	if f.ByEnded {
		return f.After()
	}
	limit, after.No, err = f.Bounds()
	return limit, after, err
}

// listQuery returns the query of a page and one run more. few are the runs among which it is sought; nil: all.
func listQuery(f *store.Filter, limit int, after store.Place, few []store.RunNo) (query string, args []any) {
	columns := runNoValues
	switch {
	case f.Values && f.Longest != 0:
		columns = runLonger(f.Longest)
	case f.Values:
		columns = runValues
	}
	order := " ORDER BY r.run_no DESC LIMIT " + fmt.Sprint(limit+1)
	if f.ByEnded {
		order = " ORDER BY r.ended DESC, r.run_no DESC LIMIT " + fmt.Sprint(limit+1)
	}
	named := byNumbers(f) || few != nil
	if !named && meets(f) {
		return meetingQuery(f, columns, limit, after.No)
	}
	merged := f.ByEnded && !named || f.Plain() && len(f.Workflows)+len(f.Statuses) > 0
	var q *search
	if merged {
		rest := *f
		rest.Statuses = nil
		q = listed(f)
		if f.ByEnded {
			q.add(&rest)
		} // otherwise w and s say all of it
	} else {
		q = newSearch(f, few)
	}
	switch {
	case f.ByEnded:
		q.and("r.ended>0 AND (r.ended, r.run_no)<(?::bigint, ?::bigint)", int64(after.Ended), int64(after.No))
		q.and("r.ended<=?", int64(after.Ended)) // so that an index begins there
	case after.No != 0 && merged:
		q.and("(r.status, r.run_no)<(s.status, ?)", int64(after.No))
	case after.No != 0:
		q.and("r.run_no<?", int64(after.No))
	}
	if !merged {
		return "SELECT " + columns + " FROM stet.runs r WHERE " + q.where() + order, q.args
	}
	// Of each workflow and status the first runs, from an index that has them in order.
	part := func(these, more, order string) string {
		return "(SELECT r.run_no FROM stet.runs r WHERE " + these + " AND " + q.where() + more + order + ")"
	}
	parts := part(ofListing, "", " ORDER BY r.status DESC, r.run_no DESC LIMIT "+fmt.Sprint(limit+1))
	if f.ByEnded {
		these := "r.workflow=w.name AND r.status=s.status"
		parts = part(these, " AND r.expires IS NULL", order) + " UNION ALL " +
			part(these, " AND r.expires IS NOT NULL", order)
	}
	statuses := "SELECT unnest(" + anyStatus(f.ByEnded) + ")"
	if len(f.Statuses) > 0 {
		statuses = "SELECT DISTINCT unnest($2::bigint[])"
	} else {
		statuses += " WHERE cardinality($2::bigint[])=0"
	}
	return listedWorkflows + "SELECT " + columns + " FROM stet.runs r WHERE r.run_no=ANY(ARRAY(SELECT x.run_no FROM w, (" +
		statuses + ") AS s(status), LATERAL (" + parts + ") x))" + order, q.args
}

// ofListing are the runs of a workflow and a status, to be ordered by status first. An equation would say the same of
// the status, and let the server order by run_no alone: then it walks through all runs, from the newest, for a page of
// those that it takes for frequent and that are rare by now, or reads the table. In this order they are in one index.
const ofListing = "r.workflow=w.name AND r.status>=s.status AND r.status<=s.status"

// anyStatus returns all statuses, or those of runs that have ended.
func anyStatus(ended bool) string {
	var list []string
	for _, s := range store.AllStatuses() {
		if !ended || s.Terminal() {
			list = append(list, fmt.Sprint(int(s)))
		}
	}
	return "ARRAY[" + strings.Join(list, ",") + "]::bigint[]"
}

// Count implements store.Store.
func (s *Store) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	if _, _, err := f.Bounds(); err != nil {
		return nil, err
	}
	counts := storekit.Counts{}
	err := s.single(ctx, "count runs", func(t *tx) error {
		few, err := t.narrowCount(&f)
		if err != nil {
			return err
		}
		query, args, indexed := countQuery(&f, few)
		each := t.eachFree
		switch {
		case !indexed:
		case few == nil && !f.Plain():
			each = t.eachOrdered
		default:
			each = t.eachListed
		}
		return each(query, args, func(scan func(...any) error) error {
			var k storekit.Counted
			var status, runs int64
			err := scan(&k.Workflow, &status, &runs)
			k.Status = store.Status(status)
			counts[k] = runs
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return counts.Tallies(f.Most), nil
}

// countQuery counts the runs of a filter by workflow and status. With Most it stops for each
// status at a number of runs, which it takes from the workflows in their order, and reads no
// more of the index than that. few are the runs among which it counts; nil: all. indexed: there is an index for it.
func countQuery(f *store.Filter, few []store.RunNo) (query string, args []any, indexed bool) {
	ends := *f
	ends.EndedFrom, ends.EndedBefore = 0, 0
	switch {
	case few == nil && ends.Plain() && !f.Plain():
		query, args = countEndedQuery(f)
		return query, args, true
	case f.Most == 0 || !f.Plain():
		q := newSearch(f, few)
		return "SELECT r.workflow, r.status, count(*) FROM stet.runs r WHERE " + q.where() +
			" GROUP BY r.workflow, r.status", q.args, few != nil || f.CreatedFrom != 0 && len(f.Tags) == 0 && !byNumbers(f)
	}
	statuses := f.Statuses
	if len(statuses) == 0 {
		statuses = store.AllStatuses()
	}
	names := slices.Clone(f.Workflows)
	slices.Sort(names)
	return listedWorkflows + `SELECT c.workflow, c.status, count(*) FROM (
		SELECT s.status, x.workflow FROM (SELECT DISTINCT unnest($2::bigint[]) AS status) s, LATERAL (
			SELECT w.name AS workflow FROM (SELECT name FROM w ORDER BY name OFFSET 0) w, LATERAL (
				SELECT FROM stet.runs r WHERE ` + ofListing + `
					ORDER BY r.status LIMIT $3) r LIMIT $3) x) c
		GROUP BY c.workflow, c.status`,
		[]any{possible(slices.Compact(names)), numbers(statuses), int64(f.Most) + 1}, true
}

// listedWorkflows are, as w, the workflows that a filter selects: those of $1, or if it has
// none those that have runs and are no entities, by as many seeks in an index. In a statement
// "stet." would be the schema.
var listedWorkflows = `WITH RECURSIVE every(name) AS (
		(SELECT r.workflow FROM stet.runs r WHERE cardinality($1::text[])=0 ORDER BY r.workflow LIMIT 1)
		UNION ALL SELECT (SELECT r.workflow FROM stet.runs r WHERE r.workflow>every.name ORDER BY r.workflow LIMIT 1)
			FROM every WHERE every.name IS NOT NULL),
	w(name) AS (SELECT name FROM every
		WHERE name<'` + strings.TrimSuffix(store.EntityPrefix, ".") + `'||'.' OR name>='` + store.AfterEntityPrefix + `'
		UNION ALL SELECT unnest($1::text[]) COLLATE "C") `
