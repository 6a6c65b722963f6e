package runner

import (
	"slices"

	"github.com/stet-run/stet/internal/fifo"
)

// arrivals are the completions of a live run that have arrived and are to be handed
// over, one queue for each way in which they come.
type arrivals struct {
	loops    fifo.Queue[*loopOp] // their next state is to be handed over
	promises lane                // their resolution is there
	runs     lane                // of children and watched runs: their end is there
	events   lane                // their event is there
	grants   []*stepOp           // their permit has come
	bodies   fifo.Queue[ended]   // ends of attempts
}

// arriving is an operation that is done by an item of the inbox.
type arriving interface {
	self() *op
	// wanted reports whether the code takes the completion.
	wanted() bool
	// late reports whether it has lost against a deadline, which is handed over first.
	late() bool
	// take hands it over.
	take()
}

// lane lists operations whose item is there, in the order of arrival.
type lane []arriving

// add lists an operation, unless it is listed.
func (l *lane) add(x arriving) {
	if o := x.self(); !o.arrived {
		o.arrived = true
		*l = append(*l, x)
	}
}

// next hands over the first that is wanted and not late. It reports whether there was
// one. What is not wanted leaves the lane.
func (l *lane) next() bool {
	for i := 0; i < len(*l); {
		x := (*l)[i]
		wanted := x.wanted()
		if wanted && x.late() {
			i++
			continue
		}
		*l = without(*l, i)
		x.self().arrived = false
		if wanted {
			x.take()
			return true
		}
	}
	return false
}

// without returns a list without one element, mostly the first.
func without[T any](list []T, i int) []T {
	if i == 0 {
		return list[1:]
	}
	return slices.Delete(list, i, i+1)
}

// none reports whether nothing has arrived that was not looked at.
func (a *arrivals) none() bool {
	return a.bodies.Len() == 0 && a.loops.Len() == 0 && len(a.promises) == 0 && len(a.runs) == 0 &&
		len(a.events) == 0 && len(a.grants) == 0
}

// nextArrival hands over one completion that has arrived or is due. It reports whether
// there was one. What comes by the inbox goes before the timers, because it has lost
// against an earlier deadline only if it is late; and ends of attempts come last, so
// that they overtake nothing.
func (r *Run) nextArrival() bool {
	a := &r.arrivals
	switch {
	case r.enterNext(), a.promises.next(), a.runs.next(), a.events.next(), r.nextMail(), r.permits.next(),
		r.timers.next(r.bound, r.inboxAt):
	case a.bodies.Len() > 0:
		r.attemptEnded(a.bodies.Pop())
	default:
		return false
	}
	return true
}
