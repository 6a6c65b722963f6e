package attempts

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

// stepPermit is the permit of a step's attempt.
type stepPermit struct {
	place permit.Place
	grant *grant     // nil: it has not come
	until store.Time // when the wait for it is over; 0: never
	spent *int       // units of the queue's rate that the attempt has taken; nil: what it has asked for
	task  string     // the attempt was offered as this; "": it needs the permit to begin
	input []byte     // of the task
	ended bool       // its outcome has come, and the queue has forgotten the permit
	// unsaid: it was given back in the turn that would have asked for it, so the queue never knows of it.
	unsaid bool
}

// grant is an item that grants permits: of several steps if they were granted together. It
// stays in the inbox until all of them are given back.
type grant struct {
	item store.ItemNo
	left int // permits of it that are not given back
}

// permits are what the steps of a run have asked queues for.
type permits struct {
	s       *Steps
	tickets map[string]*ticket // that stand
	granted []*step            // whose permit has come, in the order of coming
	early   []store.Item       // grants that were delivered before the run was live
	// withdrawn are the tasks that were given back, since TakeWithdrawn, by withdrawn steps or by the run's end.
	withdrawn []permit.Withdrawn
}

// ticket is what a permit was asked for with and is not given back.
type ticket struct {
	place permit.Place
	task  string
	input []byte
	op    *step        // nil: the code has not called it
	entry *store.Entry // of which it is recorded; nil: it is new
}

// waits reports whether a step waits for what the ticket asks for, or has it.
func (t *ticket) waits() bool { return t.op != nil && !t.op.Closed && !t.op.Settled() }

// init notes the tickets that stand in the history.
func (p *permits) init() {
	for i := range p.s.j.Entries {
		e := &p.s.j.Entries[i]
		if e.Kind != store.KindStep && !e.Kind.Undoes() || e.State != store.Open {
			continue
		}
		progress, err := p.s.progressOf(e)
		if err != nil {
			return // the run is over
		}
		if progress.Permit != nil {
			p.add(&ticket{place: *progress.Permit, task: progress.Task, input: progress.Input, entry: e})
		}
	}
}

func (p *permits) add(t *ticket) {
	if p.tickets == nil {
		p.tickets = map[string]*ticket{}
	}
	p.tickets[t.place.Ticket] = t
}

// hold gives an operation the ticket that its record has.
func (p *permits) hold(o *step, progress *stored.Progress) {
	if progress.Permit == nil {
		return
	}
	if t := p.tickets[progress.Permit.Ticket]; t != nil {
		o.permit, t.op = &stepPermit{place: t.place, task: t.task, input: t.input}, o
	}
}

// allow reports whether the next attempt of a step needs no permit. Otherwise it asks
// for one. The run is live.
func (p *permits) allow(o *step) bool {
	needs, s := o.spec.Permit, p.s
	if x := o.permit; x != nil && (needs == nil || needs.Queue != x.place.Queue || x.task != o.spec.Task.name()) {
		// the code uses another one by now
		p.end(o)
		o.lead.Asked = 0
		o.writeProgress(0)
	}
	if needs == nil {
		return true
	}
	if s.j.Owner.StandsStill() {
		o.held = true
		return false // GoOn, or the next activation, begins it
	}
	if o.permit == nil {
		place := permit.Place{Queue: needs.Queue, Key: needs.Key, Priority: needs.Priority, Cost: needs.Cost,
			Ticket: s.j.KeyFor(&o.Op)}
		_, policy := stored.SplitPolicy(s.j.Run.Headers)
		place.Above = policy.Ancestors()
		ask := permit.Ask{RunID: s.j.Run.ID, Loc: string(o.Loc)}
		o.permit = &stepPermit{place: place}
		o.offer(&ask)
		p.add(&ticket{place: place, task: o.permit.task, input: o.permit.input, op: o})
		s.j.Log.Send(place.AskFor(ask))
		o.lead.Asked = s.j.Bound()
		o.writeProgress(0)
	}
	if overall := o.spec.Policy.Overall; overall > 0 {
		o.permit.until = o.Asked.Add(overall)
		s.j.Timers.Set(o, o.permit.until)
	}
	return false
}

// deliver takes a grant for a step from the inbox. It stays there while the permit is
// held; one that nothing waits for goes back.
func (p *permits) deliver(it store.Item) {
	s := p.s
	if !s.j.Live() {
		p.early = append(p.early, it)
		s.j.Log.See(&it)
		return
	}
	if permit.Adds(&it) {
		p.added(&it)
		return
	}
	outcome, ended, err := permit.OutcomeOf(&it)
	if err != nil {
		s.j.Owner.Damaged(location.Loc(it.Loc), err)
		return
	}
	g := &grant{item: it.No}
	var strays []string
	for _, name := range permit.Tickets(&it) {
		t := p.tickets[name]
		if t == nil || (t.task != "") != ended {
			strays = append(strays, name)
			continue
		}
		g.left++
		t.op.permit.grant = g
		if ended {
			t.op.outcome(&outcome)
		} else {
			p.granted = append(p.granted, t.op)
		}
	}
	if len(strays) > 0 && !ended { // also those of an earlier activation that were given back
		s.j.Log.Send(permit.Back(it.Name, strays))
	}
	if g.left == 0 {
		s.j.Answer(it.No, nil)
		return
	}
	s.j.Log.See(&it)
}

// added takes items for streams from the worker of a task. Those of one that the run does not
// wait for are dropped.
func (p *permits) added(it *store.Item) {
	items, lease, err := permit.AddedOf(it)
	if err != nil {
		p.s.j.Owner.Damaged(location.Loc(it.Loc), err)
		return
	}
	if t := p.tickets[permit.Ticket(it)]; t != nil && t.task != "" && t.waits() {
		emissions := make([]Emission, len(items))
		for i := range items {
			emissions[i] = Emission(items[i])
		}
		t.op.add(emissions, lease)
	}
	p.s.j.Answer(it.No, nil)
}

// bounce gives back a permit that nothing waits for.
func (p *permits) bounce(it *store.Item) {
	p.s.j.Answer(it.No, nil)
	if _, ended, _ := permit.OutcomeOf(it); ended || permit.Adds(it) {
		return
	}
	p.s.j.Log.Send(permit.Return(it))
}

// next lets the attempt begin whose permit has come first. It reports whether there was
// one.
func (p *permits) next() bool {
	for len(p.granted) > 0 {
		o := p.granted[0]
		p.granted = p.granted[1:]
		x := o.permit
		if x == nil || o.busy || o.Closed || o.Settled() {
			continue
		}
		x.until = 0
		o.lead.Queue, o.lead.Granted = x.place.Queue, p.s.j.Bound()
		p.s.enqueue(o)
		return true
	}
	return false
}

// late ends an operation whose time is over while it waits for a permit.
func (p *permits) late(o *step) {
	why := &stored.Failure{Code: stored.CodeTimeout, Message: fmt.Sprintf(
		"no permit of queue %q by %s", o.permit.place.Queue, o.permit.until)}
	if task := o.permit.task; task != "" {
		why.Message = fmt.Sprintf("no worker has ended task %q of queue %q by %s", task, o.permit.place.Queue,
			o.permit.until)
	}
	o.returned = p.end(o)
	o.until = p.s.j.Bound()
	o.causes = stored.AddCause(o.causes, why, stored.Lead{}, 0, 0)
	o.Is.(attempted).giveUp()
}

// end gives back what an operation has asked for, and returns that; nil: nothing.
func (p *permits) end(o *step) *stepPermit {
	x := o.permit
	if x == nil {
		return nil
	}
	o.permit = nil
	delete(p.tickets, x.place.Ticket)
	if x.grant != nil {
		x.grant.left--
	}
	p.giveBack(x)
	return x
}

// withdraw gives back what an operation has asked for that is withdrawn.
func (p *permits) withdraw(o *step) {
	offered := o.offered()
	if x := p.end(o); offered && !x.unsaid {
		p.gone(&x.place, x.task, o.Loc)
	}
}

// gone notes that a task was given back whose step is withdrawn, or whose run ends. task is "" if the permit was none
// of a task.
func (p *permits) gone(place *permit.Place, task string, loc location.Loc) {
	if task != "" {
		p.withdrawn = append(p.withdrawn, permit.Withdrawn{Queue: place.Queue, Ticket: place.Ticket, Loc: string(loc)})
	}
}

// giveBack lets the turn give back what no operation has any more. x may be nil.
func (p *permits) giveBack(x *stepPermit) {
	if x == nil {
		return
	}
	s := p.s
	if g := x.grant; g != nil && g.left == 0 {
		s.j.Answer(g.item, nil)
	}
	if x.ended {
		return
	}
	asks := func(it *store.Item) bool { return it.Kind == store.ItemAsk && permit.Ticket(it) == x.place.Ticket }
	if x.unsaid = s.j.Log.Unsend(asks); !x.unsaid {
		g := permit.Given{Ticket: x.place.Ticket, Spent: permit.AsAsked}
		if x.spent != nil {
			g.Spent = *x.spent
		}
		s.j.Log.Send(permit.GiveBack(x.place.Queue, []permit.Given{g}))
	}
}

// open returns the tickets that stand, in their order.
func (p *permits) open() []*ticket {
	if len(p.tickets) == 0 {
		return nil
	}
	all := slices.Collect(maps.Values(p.tickets))
	slices.SortFunc(all, func(a, b *ticket) int { return cmp.Compare(a.place.Ticket, b.place.Ticket) })
	return all
}

// goLive is called when the run goes live: what nothing waits for is given back, and
// the grants that have come are looked at.
func (p *permits) goLive() {
	for _, t := range p.open() {
		if !t.waits() {
			p.drop(t)
		}
	}
	grants := p.early
	p.early = nil
	for i := range grants {
		for _, name := range permit.Tickets(&grants[i]) {
			if t := p.tickets[name]; t != nil && t.task == "" && t.op != nil && t.op.leavesNoTrace() {
				t.op.unsure = true // the permit may have been used
			}
		}
		grants[i].State = store.Seen // noted when they came
		p.deliver(grants[i])
	}
}

// mayUse reports whether a former activation may have begun the body of a step that waits
// for a permit: it has come, and the replay has not looked at it yet.
func (p *permits) mayUse(o *step) bool {
	return o.permit != nil && o.leavesNoTrace() && slices.ContainsFunc(p.early, func(it store.Item) bool {
		return slices.Contains(permit.Tickets(&it), o.permit.place.Ticket)
	})
}

// drop gives back what an operation has asked for that the code has no more, or that is
// over, and takes the ticket out of its entry.
func (p *permits) drop(t *ticket) {
	delete(p.tickets, t.place.Ticket)
	if e := t.entry; e != nil {
		if progress, err := p.s.progressOf(e); err == nil {
			p.s.j.Log.Add(progress.WithoutPermit(e))
		}
		p.gone(&t.place, t.task, location.Loc(e.Loc))
	}
	p.s.j.Log.Send(t.place.GiveBack())
}

// endAll gives back all that the run has asked for, as it ends.
func (p *permits) endAll() {
	for _, t := range p.open() {
		if !p.s.j.Live() || !t.waits() {
			p.drop(t)
			continue
		}
		p.withdraw(t.op)
		t.op.writeProgress(0)
	}
	for i := range p.early {
		p.bounce(&p.early[i])
	}
	p.early = nil
}
