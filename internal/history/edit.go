package history

import (
	"fmt"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Edit returns the record of a step with another outcome: a value, or with failed
// the failure that is its cause. A step that has not completed is done then, and
// gets its number when the run goes on. So is a compensation that has failed: it is
// not executed any more. A Refusal says why it cannot be; another
// error that something cannot be read.
func Edit(entries []store.Entry, q *stored.Request, now store.Time) (store.Entry, error) {
	p := past{entries: entries}
	loc := location.Loc(q.Location)
	old := p.at(q.Location)
	switch {
	case old == nil:
		return store.Entry{}, p.unknown(loc)
	case old.Kind == store.KindUndo && (old.State != store.Open || q.Failed):
		return store.Entry{}, refuseTo("%s is a compensation: one that is open can be edited to be done, and nothing else", loc)
	case old.Kind == store.KindUndo:
		e := *old
		e.State, e.Value, e.Wake, e.Size, e.Ended = store.Done, nil, 0, 0, now
		return e, nil
	case old.Kind != store.KindStep:
		return store.Entry{}, refuseTo("%s is a %s: only the outcome of a step can be edited", loc, old.Kind)
	case p.isUndone(q.Location):
		return store.Entry{}, refuseTo("step %s was undone", loc)
	}
	e := *old
	e.Wake, e.Size = 0, 0
	if e.State == store.Open || e.State == store.Withdrawn {
		e.Ended = now
	}
	e.State, e.Value = store.Done, q.Value
	if !q.Failed {
		return e, nil
	}
	cause, err := stored.DecodeFailure(q.Value)
	if err != nil {
		return e, err
	}
	e.State = store.FailedEntry
	e.Value = stored.EncodeFailure(&stored.Failure{
		Code: stored.CodeStep, Location: loc.String(), Attempts: e.Attempt, Cause: cause, Causes: []*stored.Failure{cause},
		Message: fmt.Sprintf("step %s failed: %s", loc, cause.Message),
	})
	return e, nil
}

// isUndone reports whether a compensation of the step at a location is recorded.
func (p *past) isUndone(loc string) bool {
	for i := range p.entries {
		if p.entries[i].Kind == store.KindUndo && string(location.Loc(p.entries[i].Loc).Parent()) == loc {
			return true
		}
	}
	return false
}
