package postgres

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
)

// A filter may be the meeting of several sets of runs, of which each has an index: those of a tag, of workflows and
// statuses, of a beginning of the ID, of a time of the end. The server would have to guess which is the smallest, and
// without statistics of these values it guesses badly. So it is looked up.

// mostSorted bounds the runs that a list finds in another order than its own, and then sorts.
const mostSorted = 10_000

// arg adds an argument, and returns how a query names it.
func (s *search) arg(value any) string {
	s.args = append(s.args, value)
	return fmt.Sprintf("$%d", len(s.args))
}

// byNumbers reports whether a filter says itself which few runs it is about.
func byNumbers(f *store.Filter) bool {
	return len(f.IDs)+len(f.Nos)+len(f.Claimed) > 0 || f.Parent != 0
}

// few returns the numbers that a query finds; nil: there are more than a bound.
func (t *tx) few(most int, query string, args []any) ([]store.RunNo, error) {
	nos := []store.RunNo{}
	query = fmt.Sprintf("%s LIMIT %d", query, most+1)
	err := t.eachOrdered(query, args, func(scan func(...any) error) error {
		var no int64
		err := scan(&no)
		nos = append(nos, store.RunNo(no))
		return err
	})
	if len(nos) > most {
		nos = nil
	}
	return nos, err
}

// fewBegun returns the runs whose IDs begin as a filter says; nil: there are many, or it does not say so.
func (t *tx) fewBegun(f *store.Filter) ([]store.RunNo, error) {
	if f.IDPrefix == "" {
		return nil, nil
	}
	q := &search{}
	q.prefixed(f.IDPrefix)
	return t.few(mostSorted, "SELECT r.run_no FROM stet.runs r WHERE "+q.where()+" ORDER BY r.id", q.args)
}

// fewEnded returns the runs of a filter's workflows and statuses that have ended in its time; nil: there are many, or
// it names none.
func (t *tx) fewEnded(f *store.Filter) ([]store.RunNo, error) {
	if f.EndedFrom|f.EndedBefore == 0 {
		return nil, nil
	}
	q, part := endedParts(f)
	parts := part("r.run_no", fmt.Sprint(" ORDER BY r.ended LIMIT ", mostSorted+1))
	return t.few(mostSorted, listedWorkflows+"SELECT x.run_no FROM w, ("+terminal+") AS s(status), LATERAL ("+parts+") x",
		q.args)
}

// endedParts returns a function that makes, for a workflow w and a status s, the query of those that have ended in a
// filter's time from both indexes, which have them in the order of their ends.
func endedParts(f *store.Filter) (q *search, part func(columns, order string) string) {
	q = listed(f)
	before := int64(math.MaxInt64)
	if f.EndedBefore != 0 {
		before = int64(f.EndedBefore)
	}
	these := " FROM stet.runs r WHERE r.workflow=w.name AND r.status=s.status AND r.ended>0 AND r.ended>=" +
		q.arg(int64(f.EndedFrom)) + " AND r.ended<" + q.arg(before)
	return q, func(columns, order string) string {
		return "(SELECT " + columns + these + " AND r.expires IS NULL" + order + ") UNION ALL (SELECT " + columns + these +
			" AND r.expires IS NOT NULL" + order + ")"
	}
}

// listed returns a search whose first arguments are the workflows and the statuses of a filter.
func listed(f *store.Filter) *search {
	names := slices.Clone(f.Workflows)
	slices.Sort(names)
	return &search{args: []any{possible(slices.Compact(names)), numbers(f.Statuses)}, seeks: true}
}

// terminal are the statuses of $2, or all if it has none, of runs that have ended. anyOf are the same of all runs.
var (
	terminal = "SELECT unnest(" + anyStatus(true) +
		") INTERSECT SELECT unnest(CASE WHEN cardinality($2::bigint[])=0 THEN " + anyStatus(true) + " ELSE $2::bigint[] END)"
	anyOf = "SELECT DISTINCT unnest(CASE WHEN cardinality($2::bigint[])=0 THEN " + anyStatus(false) +
		" ELSE $2::bigint[] END)"
)

// fewTagged returns the runs with the tags of one of a filter's keys; nil: there are many of each. A rare tag is found
// before a frequent one is read.
func (t *tx) fewTagged(f *store.Filter) ([]store.RunNo, error) {
	values := f.TagValues()
	for most := 1 << 10; len(values) > 0; most = min(most<<4, mostSorted) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			nos, err := t.few(most, "SELECT o.tagged FROM stet.tags o WHERE o.key=$1 AND o.value=ANY($2::text[])",
				[]any{name(key), possible(values[key])})
			if err != nil || nos != nil {
				return nos, err
			}
		}
		if most == mostSorted {
			break
		}
	}
	return nil, nil
}

// fewListed returns the runs of a filter's workflows and statuses; nil: there are many, or it names none.
func (t *tx) fewListed(f *store.Filter) ([]store.RunNo, error) {
	if len(f.Workflows)+len(f.Statuses) == 0 {
		return nil, nil
	}
	q := listed(f)
	return t.few(mostSorted, listedWorkflows+"SELECT x.run_no FROM w, ("+anyOf+
		") AS s(status), LATERAL (SELECT r.run_no FROM stet.runs r WHERE "+ofListing+" ORDER BY r.status DESC, r.run_no DESC "+
		fmt.Sprint("LIMIT ", mostSorted+1)+") x", q.args)
}

// fewMarked returns the runs with marks that an index has; nil: there are many, or the filter names none.
func (t *tx) fewMarked(f *store.Filter) ([]store.RunNo, error) {
	if f.Marks&^store.Held == 0 {
		return nil, nil
	}
	return t.few(mostSorted, "SELECT r.run_no FROM stet.runs r WHERE r.marks & 47 <> 0", nil)
}

// narrow returns the few runs among which a list can be sought; nil: there are many.
func (t *tx) narrow(f *store.Filter) ([]store.RunNo, error) {
	if byNumbers(f) {
		return nil, nil
	}
	ways := []func(*store.Filter) ([]store.RunNo, error){t.fewBegun, t.fewEnded}
	if f.ByEnded {
		ways = []func(*store.Filter) ([]store.RunNo, error){t.fewBegun, t.fewTagged}
	}
	return firstOf(f, ways)
}

// narrowCount is narrow for a count, which has no order.
func (t *tx) narrowCount(f *store.Filter) ([]store.RunNo, error) {
	ways := []func(*store.Filter) ([]store.RunNo, error){t.fewBegun, t.fewEnded, t.fewTagged}
	if len(f.Tags) > 0 {
		ways = append(ways, t.fewListed, t.fewMarked)
	}
	if byNumbers(f) {
		ways = nil
	}
	return firstOf(f, ways)
}

func firstOf(f *store.Filter, ways []func(*store.Filter) ([]store.RunNo, error)) ([]store.RunNo, error) {
	for _, way := range ways {
		if nos, err := way(f); err != nil || nos != nil {
			return nos, err
		}
	}
	return nil, nil
}

// meets reports whether a list is the meeting of several parts of indexes that have their runs in the order of their
// numbers. Each tag has such a part.
func meets(f *store.Filter) bool { return !f.ByEnded && !byNumbers(f) && len(f.Tags) > 0 }

// meetingQuery returns the query of a list that meets: leap has the numbers that all parts have, from the newest on,
// with the value 1. It reads at most about twice as many rows of each part as the smallest has: from a number that one
// part lacks the others leap to the next one of that part. The server reads leap as far as the page needs it.
func meetingQuery(f *store.Filter, columns string, limit int, after store.RunNo) (query string, args []any) {
	q, with := &search{}, "WITH RECURSIVE "
	listing := len(f.Workflows)+len(f.Statuses) > 0
	if listing {
		q, with = listed(f), listedWorkflows+", "
	}
	if after == 0 {
		after = math.MaxInt64
	}
	high, low := q.arg(int64(after)), "0"
	since, before := sqlstore.CreatedWithin(f)
	if since != 0 {
		low = "(" + strings.ReplaceAll(sqlstore.NumberAt, "$1", q.arg(int64(since))+"::bigint") + ")"
	}
	if before != 0 {
		at := strings.ReplaceAll(sqlstore.NumberAt, "$1", q.arg(int64(before))+"::bigint")
		high = "least(" + high + "::bigint, 1+(" + at + "))"
	}
	below, parts := "b.no", ""
	add := func(text string) {
		n := strings.Count(parts, "LATERAL (SELECT max(")
		parts += fmt.Sprintf(", LATERAL (SELECT max(n.no) AS no FROM %s) p%d", strings.ReplaceAll(text, "BELOW", below), n)
		below = fmt.Sprintf("p%d.no+1", n)
	}
	values := f.TagValues()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		add("unnest(" + q.arg(possible(values[key])) + "::text[]) AS v(value), LATERAL (" +
			"SELECT o.tagged AS no FROM stet.tags o WHERE o.key=" + q.arg(name(key)) + " AND o.value=v.value COLLATE \"C\" AND o.tagged<BELOW " +
			"ORDER BY o.tagged DESC LIMIT 1) n")
	}
	if listing {
		add("w, (" + anyOf + ") AS s(status), LATERAL (SELECT r.run_no AS no FROM stet.runs r WHERE " + ofListing +
			" AND (r.status, r.run_no)<(s.status, BELOW) ORDER BY r.status DESC, r.run_no DESC LIMIT 1) n")
	}
	if f.Marks&^store.Held != 0 {
		add("(SELECT r.run_no AS no FROM stet.runs r WHERE r.marks & 47 <> 0 AND r.run_no<BELOW " +
			"ORDER BY r.run_no DESC LIMIT 1) n")
	}
	rest := *f // the parts have these
	rest.Tags, rest.Statuses = nil, nil
	q.add(&rest)
	last := strings.TrimSuffix(below, "+1")
	return with + "leap(no, met) AS (SELECT " + high + "::bigint, 2 UNION ALL SELECT " + last + ", CASE WHEN p0.no=" +
		last + " THEN 1 ELSE 0 END FROM leap l, " +
		"LATERAL (SELECT CASE WHEN l.met>0 THEN l.no ELSE l.no+1 END AS no OFFSET 0) b" +
		parts + " WHERE " + last + ">" + low + ") SELECT x.* FROM leap, LATERAL (SELECT " + columns +
		" FROM stet.runs r WHERE r.run_no=leap.no AND " + q.where() + " OFFSET 0) x WHERE leap.met=1 LIMIT " +
		fmt.Sprint(limit+1), q.args
}

// countEndedQuery counts the runs that have ended in a time, by the indexes of ends.
func countEndedQuery(f *store.Filter) (query string, args []any) {
	q, part := endedParts(f)
	return listedWorkflows + "SELECT w.name, s.status, count(*) FROM w, (" + terminal + ") AS s(status), LATERAL (" +
		part("r.run_no", " ORDER BY r.ended OFFSET 0") + ") x GROUP BY w.name, s.status", q.args
}
