package runner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// # Permits of steps
//
// A step that uses a queue needs a permit of it for each attempt. When the attempt
// could begin, the turn asks for one with a ticket that is used once, which is in the
// step's entry from the same turn on; the run can be suspended then. The body is
// queued when the grant has come, which stays in the inbox for as long as the permit
// is held; and the turn that records the end of the attempt gives the permit back. An
// attempt that was lost with its process has left ticket and grant: the next
// activation executes it again with the same permit.
//
// So every ticket that was asked with is given back in some turn: with the end of the
// attempt, with that of the step or the run, or when the run goes live and nothing
// waits for it. What is taken back or edited gives it back in the turn that does that;
// a grant that finds nobody goes back by itself.

// pass is the permit of a step's attempt.
type pass struct {
	place permit.Place
	item  store.ItemNo // the grant; 0: it has not come
	none  bool         // it says that there is no such queue
	until store.Time   // when the wait for it is over; 0: never
}

// ticket is what a permit was asked for with and is not given back.
type ticket struct {
	place permit.Place
	op    *op          // nil: the code has not asked for it
	entry *store.Entry // of which it is recorded; nil: it is new
}

// initPermits notes the tickets that stand.
func (r *Run) initPermits() {
	for i := range r.cfg.Entries {
		e := &r.cfg.Entries[i]
		if e.Kind != store.KindStep || e.State != store.Open {
			continue
		}
		p, err := r.progressOf(e)
		if err != nil {
			return // the run is over
		}
		if p.Permit != nil {
			r.ticketIs(&ticket{place: *p.Permit, entry: e})
		}
	}
}

// progressOf reads the value of an open step. After an error the run is damaged or
// broken.
func (r *Run) progressOf(e *store.Entry) (stored.Progress, error) {
	value := e.Value
	if value == nil && e.Size > 0 {
		var err error
		if value, err = r.cfg.Fetch(e.Loc); err != nil {
			r.broken = fmt.Errorf("fetch the value of %s: %w", location.Loc(e.Loc), err)
			return stored.Progress{}, err
		}
	}
	p, err := stored.DecodeProgress(value)
	if err != nil {
		r.damaged(location.Loc(e.Loc), err)
	}
	return p, err
}

func (r *Run) ticketIs(t *ticket) {
	if r.tickets == nil {
		r.tickets = map[string]*ticket{}
	}
	r.tickets[t.place.Ticket] = t
}

// holdTicket gives an operation the ticket that its record has.
func (b *Branch) holdTicket(o *op, place *permit.Place) {
	if place == nil {
		return
	}
	if t := b.run.tickets[place.Ticket]; t != nil {
		o.pass, t.op = &pass{place: *place}, o
	}
}

// beginAttempt queues the next body of a step, when it has the permit that it needs.
// The run is live.
func (r *Run) beginAttempt(o *op) {
	needs := o.step.Permit
	if x := o.pass; x != nil && (needs == nil || needs.Queue != x.place.Queue) { // the code uses another one by now
		r.endPermit(o)
		r.writeProgress(o, 0)
	}
	if needs == nil {
		r.queueBody(o)
		return
	}
	if r.pause != nil {
		return // who takes the run up again begins it
	}
	if o.pass == nil {
		x := &pass{place: permit.Place{Queue: needs.Queue, Key: needs.Key, Priority: needs.Priority, Ticket: r.newKey(o)}}
		o.pass = x
		r.ticketIs(&ticket{place: x.place, op: o})
		r.log.Send(x.place.AskFor(permit.Ask{RunID: r.cfg.Run.ID, Loc: string(o.loc)}))
		r.writeProgress(o, 0)
	}
	if overall := o.step.Policy.Overall; overall > 0 {
		o.pass.until = o.asked.Add(overall)
		r.setTimer(o, o.pass.until)
	}
}

// deliverGrant takes a grant for a step from the inbox. It stays there while the
// permit is held; one that nothing waits for goes back.
func (r *Run) deliverGrant(it store.Item) {
	if !r.live {
		r.grants = append(r.grants, it)
		r.log.See(&it)
		return
	}
	t := r.tickets[permit.Ticket(&it)]
	if t == nil {
		r.bounce(&it)
		return
	}
	t.op.pass.item, t.op.pass.none = it.No, it.Failed
	r.granted = append(r.granted, t.op)
	r.log.See(&it)
}

// bounce gives back a permit that nobody waits for.
func (r *Run) bounce(it *store.Item) {
	r.Answer(it.No, nil)
	r.log.Send(permit.Return(it))
}

// matchGrant lets the attempt begin whose permit has come first. It reports whether
// there was one.
func (r *Run) matchGrant() bool {
	for len(r.granted) > 0 {
		o := r.granted[0]
		r.granted = r.granted[1:]
		x := o.pass
		if x == nil || o.busy || o.closed || o.Settled() {
			continue
		}
		x.until = 0
		if x.none {
			r.endWithoutPermit(o, &stored.Failure{Code: stored.CodeNoQueue, Message: fmt.Sprintf("queue %q: %v", x.place.Queue, ErrNoQueue)})
		} else {
			r.queueBody(o)
		}
		return true
	}
	return false
}

// permitLate ends a step whose time is over while it waits for a permit.
func (r *Run) permitLate(o *op) {
	r.endWithoutPermit(o, &stored.Failure{Code: stored.CodeTimeout, Message: fmt.Sprintf("no permit of queue %q by %s", o.pass.place.Queue, o.pass.until)})
}

func (r *Run) endWithoutPermit(o *op, why *stored.Failure) {
	r.endPermit(o)
	o.until = r.bound
	o.causes = stored.AddCause(o.causes, why)
	r.failStep(o)
}

// endPermit gives back what an operation has asked for, if it has.
func (r *Run) endPermit(o *op) {
	x := o.pass
	if x == nil {
		return
	}
	o.pass = nil
	delete(r.tickets, x.place.Ticket)
	if x.item != 0 {
		r.Answer(x.item, nil)
	}
	if !r.log.Unsend(func(it *store.Item) bool { return it.Kind == store.ItemAsk && permit.Ticket(it) == x.place.Ticket }) {
		r.log.Send(x.place.GiveBack())
	}
}

// openTickets returns the tickets that stand, in their order.
func (r *Run) openTickets() []*ticket {
	if len(r.tickets) == 0 {
		return nil
	}
	all := slices.Collect(maps.Values(r.tickets))
	slices.SortFunc(all, func(a, b *ticket) int { return cmp.Compare(a.place.Ticket, b.place.Ticket) })
	return all
}

// livePermits is called when the run goes live: what nothing waits for is given back,
// and what has come is looked at.
func (r *Run) livePermits() {
	for _, t := range r.openTickets() {
		if t.op == nil || t.op.closed || t.op.Settled() {
			r.dropTicket(t)
		}
	}
	grants := r.grants
	r.grants = nil
	for i := range grants {
		grants[i].State = store.Seen // noted when they came
		r.deliverGrant(grants[i])
	}
}

// dropTicket gives back what an operation has asked for that the code has no more, or
// that is over, and takes the ticket out of its entry.
func (r *Run) dropTicket(t *ticket) {
	delete(r.tickets, t.place.Ticket)
	if e := t.entry; e != nil {
		if p, err := r.progressOf(e); err == nil {
			r.log.Add(p.WithoutPermit(e))
		}
	}
	r.log.Send(t.place.GiveBack())
}

// returnPermits gives back all that the run has asked for, as it ends.
func (r *Run) returnPermits() {
	for _, t := range r.openTickets() {
		o := t.op
		if !r.live || o == nil || o.closed || o.Settled() {
			r.dropTicket(t)
			continue
		}
		r.endPermit(o)
		r.writeProgress(o, 0)
	}
	for i := range r.grants {
		r.bounce(&r.grants[i])
	}
	r.grants = nil
}
