package history

import (
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Edit returns the entry of a step with another outcome: a value, or with q.Failed the
// failure that is its cause. sends is what the turn sends with it.
//
// A step that has not completed is done afterwards, and gets its number when the run
// goes on. So is a compensation that has failed: it is executed no more. A Refusal says
// why the entry cannot be edited; another error, that something cannot be read.
func Edit(entries []store.Entry, q *stored.Request, now store.Time) (e store.Entry, sends []store.Command, err error) {
	h := history{entries: entries}
	old := h.at(q.Location)
	if old == nil {
		return store.Entry{}, nil, h.unknown(location.Loc(q.Location))
	}
	return of(old).edit(&h, old, q, now)
}
