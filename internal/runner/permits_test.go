package runner

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// queues is what the queues would hold of what one run says to them.
type queues struct {
	asked map[string]*asked // by ticket, all that ever were

	granted, together, strays int // how often each happened
}

// asked is a permit that was asked for.
type asked struct {
	queue   string
	loc     string
	granted store.ItemNo // 0: not
	back    bool
	stray   bool // it was granted after it was given back
}

// asks takes what the run says to a queue.
func (j *durable) asks(recordID string, it *store.Item) {
	o := &j.queues
	queue, ok := permit.Queue(recordID)
	if o.asked == nil {
		o.asked = map[string]*asked{}
	}
	switch it.Kind {
	case store.ItemAsk:
		a := o.asked[permit.Ticket(it)]
		ask, err := permit.DecodeAsk(it.Value)
		if err != nil || !ok || a != nil || ask.RunID != j.run.ID || ask.Loc == "" {
			j.violate("queue %q is asked twice, or badly: %+v, %v", queue, ask, err)
		}
		for _, other := range o.asked {
			if other.loc == ask.Loc && !other.back && !other.stray {
				j.violate("step %s asks for a permit and has asked for another one", location.Loc(ask.Loc))
			}
		}
		o.asked[permit.Ticket(it)] = &asked{queue: queue, loc: ask.Loc}
	case store.ItemGiveBack:
		for _, ticket := range permit.Tickets(it) {
			a := o.asked[ticket]
			if a == nil || a.queue != queue {
				j.violate("the ticket %q is given back to %q, which was not asked", ticket, queue)
				return
			}
			a.back = true
		}
	}
}

// permitted notes a body that begins without the permit that it needs.
func (j *durable) permitted(loc location.Loc) {
	for _, a := range j.queues.asked {
		if a.loc == string(loc) && a.granted != 0 && !a.back && !a.stray {
			return
		}
	}
	j.violate("the body of %s begins without a permit", loc)
}

// unreturned returns a permit that a run has asked for and not given back although it
// has ended, or "".
func (j *durable) unreturned() string {
	for _, ticket := range slices.Sorted(maps.Keys(j.queues.asked)) {
		if a := j.queues.asked[ticket]; !a.back {
			return fmt.Sprintf("the run has ended and the permit %q of %s is not given back (granted by item %d)", ticket,
				location.Loc(a.loc), a.granted)
		}
	}
	return ""
}

// grant gives a permit that was asked for. It reports false if there is none.
func (d *driver) grant() bool {
	open := map[string]string{} // tickets by location
	for ticket, a := range d.j.queues.asked {
		if !a.back && a.granted == 0 {
			open[a.loc] = ticket
		}
	}
	if len(open) == 0 {
		return false
	}
	// Tickets differ from one try to the other, and so does the number of those that
	// are open: the order is that of the locations' hashes.
	locs := slices.SortedFunc(maps.Keys(open), func(a, b string) int {
		return int(int64(hashOf(location.Loc(a))) - int64(hashOf(location.Loc(b))))
	})
	i, several := 0, false
	if d.random != nil {
		i, several = d.random.IntN(len(locs)), d.random.IntN(2) == 0
	}
	tickets := []string{open[locs[i]]}
	for _, loc := range locs[i+1:] {
		if several && d.j.queues.asked[open[loc]].queue == d.j.queues.asked[tickets[0]].queue {
			tickets = append(tickets, open[loc])
		}
	}
	d.grantTo(tickets...)
	return true
}

// grantTo grants permits of one queue in one item.
func (d *driver) grantTo(tickets ...string) {
	d.j.queues.granted += len(tickets)
	if len(tickets) > 1 {
		d.j.queues.together++
	}
	var grants []permit.StepGrant
	for _, ticket := range tickets {
		a := d.j.queues.asked[ticket]
		a.granted = store.ItemNo(len(d.j.items) + 1)
		grants = append(grants, permit.StepGrant{Ticket: ticket, Loc: a.loc})
	}
	d.give(*permit.GrantSteps(d.j.queues.asked[tickets[0]].queue, d.j.run.ID, grants).Item)
}

// grantStray gives a permit that was given back: the queue did not know yet.
func (d *driver) grantStray() {
	for _, ticket := range slices.Sorted(maps.Keys(d.j.queues.asked)) {
		if a := d.j.queues.asked[ticket]; a.back && a.granted == 0 {
			d.j.queues.strays++
			a.back, a.stray = false, true // it goes back once more
			d.grantTo(ticket)
			return
		}
	}
}

// limited returns what a statement's attempts need: every third statement's a permit.
func limited(s *stmt) *permit.Place {
	if hashOf(location.Loc(s.name))%3 != 0 {
		return nil
	}
	return &permit.Place{Queue: fmt.Sprint("q", s.mail), Key: "k", Priority: s.mail}
}
