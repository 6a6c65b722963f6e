package runner

import (
	"github.com/stet-run/stet/internal/fifo"
	"github.com/stet-run/stet/internal/runner/journal"
)

// arrivals are the completions of a live run that have arrived and are to be handed
// over, one queue for each way in which they come.
type arrivals struct {
	loops    fifo.Queue[*loopOp] // their next state is to be handed over
	promises journal.Lane        // their resolution is there
}

// none reports whether nothing has arrived that was not looked at.
func (a *arrivals) none() bool {
	return a.loops.Len() == 0 && len(a.promises) == 0
}

// nextArrival hands over one completion that has arrived or is due. It reports whether
// there was one. What comes by the inbox goes before the timers, because it has lost
// against an earlier deadline only if it is late; and ends of attempts come last, so
// that they overtake nothing.
func (r *Run) nextArrival() bool {
	a := &r.arrivals
	return r.enterNext() || a.promises.Next() || r.runs.Next() || r.topics.Next() || r.nextMail() || r.steps.NextGrant() ||
		r.j.Timers.Next(r.j.Bound(), r.j.InboxAt()) || r.steps.NextEnd()
}
