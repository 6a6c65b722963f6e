package sqlstore

import (
	"time"

	"github.com/stet-run/stet/store"
)

// Runs get their numbers in the order in which they are started, give or take the clocks of
// nodes and transactions that are under way. So bounds for the time of a start are bounds for
// numbers, too, with some slack.

// CreatedSlack is by how much runs may have been created out of the order of their numbers.
const CreatedSlack = time.Minute

// NumberAt returns the number up to which runs were created before the time $1, by as many
// seeks as the highest number has bits: the first run above was created then or later, or
// there is none.
const NumberAt = `WITH RECURSIVE b(low, high) AS (
	SELECT -1::bigint, coalesce(max(run_no), 0) FROM stet.runs
	UNION ALL
	SELECT CASE WHEN ` + later + ` THEN low ELSE (low+high)/2 END, CASE WHEN ` + later + ` THEN (low+high)/2 ELSE high END
	FROM b WHERE high-low>1)
	SELECT min(high) FROM b`

// later says that the first run above the middle was created then or later.
const later = `coalesce((SELECT r.created FROM stet.runs r WHERE r.run_no>(b.low+b.high)/2
	ORDER BY r.run_no LIMIT 1)>=$1, true)`

// CreatedWithin returns the times for NumberAt between whose numbers, the first excluded,
// all runs are that a filter selects; 0: no such bound.
func CreatedWithin(f *store.Filter) (from, before store.Time) {
	if f.CreatedFrom != 0 {
		from = max(f.CreatedFrom.Add(-CreatedSlack), 1)
	}
	if f.CreatedBefore != 0 {
		before = f.CreatedBefore.Add(CreatedSlack)
	}
	if f.EndedBefore != 0 && (before == 0 || f.EndedBefore < f.CreatedBefore) { // it was created before
		before = f.EndedBefore.Add(CreatedSlack)
	}
	return from, before
}
