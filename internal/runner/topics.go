package runner

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// topics are the waits of a run that stand at topics, and what it has heard there.
type topics struct {
	run           *Run
	registrations map[string]*registration // by key
	early         []store.Item             // deliveries that came before the run was live
	heard         map[string]heard         // by topic
}

// registration is a wait that stands at a topic.
type registration struct {
	wait  event.Wait
	op    *eventOp     // nil: the code has not called it
	entry *store.Entry // of which it is recorded; nil: it is new
}

// heard is what the history says of the events of a topic that were taken.
type heard struct {
	last  store.ItemNo // broadcast
	first store.Time   // when the first of them was published
}

// init notes the waits that stand in the history.
func (t *topics) init() {
	t.registrations = map[string]*registration{}
	for i := range t.run.cfg.Entries {
		e := &t.run.cfg.Entries[i]
		if e.Kind != store.KindEvent || e.State != store.Open {
			continue
		}
		var w event.Wait
		if err := event.Decode(e.Value, &w); err != nil {
			t.run.damaged(location.Loc(e.Loc), err)
			return
		}
		t.registrations[w.Key] = &registration{wait: w, entry: e}
	}
}

// found gives an operation the registration that its record has.
func (t *topics) found(o *eventOp) {
	var w event.Wait
	if event.Decode(o.Rec.Value, &w) != nil {
		return // init has stalled the run
	}
	if g := t.registrations[w.Key]; g != nil {
		o.topic, o.key, g.op = w.Topic, w.Key, o
	}
}

// registrationOf returns what the topic is told of the wait.
func (t *topics) registrationOf(o *eventOp) *event.Registration {
	run := &t.run.cfg.Run
	heard := t.heard[o.topic]
	g := &event.Registration{Run: run.No, After: heard.last}
	switch o.spec.Visible {
	case SinceRun:
		g.Since = run.Created
		if run.Started != 0 && run.Started < g.Since {
			// A fork is as old as what it was forked from, of which this is known.
			if g.Since = run.Started; heard.first != 0 {
				g.Since = min(g.Since, heard.first)
			}
		}
	case SinceWait:
		g.Since = o.Asked
	}
	for key, other := range t.registrations {
		if other.wait.Topic == o.topic {
			g.Open = append(g.Open, key)
		}
	}
	slices.Sort(g.Open)
	return g
}

// deliver takes a delivery from the inbox. One that nothing waits for is consumed.
func (t *topics) deliver(it store.Item) {
	r := t.run
	if !r.j.Live() {
		t.early = append(t.early, it)
		r.j.Log.See(&it)
		return
	}
	g := t.registrations[it.Name]
	if g == nil || g.op == nil || g.op.given != nil {
		r.j.Answer(it.No, nil)
		return
	}
	o := g.op
	d := new(event.Delivery)
	if err := event.Decode(it.Value, d); err != nil {
		r.damaged(o.Loc, err)
		return
	}
	o.given, o.item, o.sent = d, it.No, it.Sent
	r.j.Log.See(&it)
	o.arrive()
}

// goLive withdraws the waits that Removed has accepted.
func (t *topics) goLive() {
	for _, g := range t.standing() {
		if g.op == nil {
			t.forsake(g)
		}
	}
}

// deliverEarly looks at the deliveries that have come before the run was live.
func (t *topics) deliverEarly() {
	deliveries := t.early
	t.early = nil
	for i := range deliveries {
		deliveries[i].State = store.Seen // noted when they came
		t.deliver(deliveries[i])
	}
}

// hear notes that the run has taken an event.
func (t *topics) hear(d *event.Delivery) {
	if t.heard == nil {
		t.heard = map[string]heard{}
	}
	h := t.heard[d.Topic]
	if d.Event.Mode == event.Broadcast {
		h.last = max(h.last, d.Event.Number)
	}
	if h.first == 0 || d.Event.Sent < h.first {
		h.first = d.Event.Sent
	}
	t.heard[d.Topic] = h
}

// done notes that a wait does not stand any more.
func (t *topics) done(o *eventOp) { delete(t.registrations, o.key) }

// Withdraw withdraws a wait at its topic, and drops what it was given.
func (t *topics) withdraw(o *eventOp) {
	if o.key == "" {
		return
	}
	r := t.run
	registers := func(it *store.Item) bool { return it.Kind == store.ItemWait && it.Name == o.key }
	if !r.j.Log.Unsend(registers) {
		r.j.Log.Send(event.Withdraw(o.topic, o.key))
	}
	t.done(o)
	if o.key = ""; o.given != nil {
		o.given = nil
		r.j.Answer(o.item, nil)
	}
}

// standing returns the registrations in the order of their keys.
func (t *topics) standing() []*registration {
	if len(t.registrations) == 0 {
		return nil
	}
	all := slices.Collect(maps.Values(t.registrations))
	slices.SortFunc(all, func(a, b *registration) int { return cmp.Compare(a.wait.Key, b.wait.Key) })
	return all
}

// forsake withdraws a wait that the code has no more.
func (t *topics) forsake(g *registration) {
	t.run.j.Log.Add(history.Withdrawn(g.entry))
	t.run.j.Log.Send(event.Withdraw(g.wait.Topic, g.wait.Key))
	delete(t.registrations, g.wait.Key)
}

// end withdraws what the run still waits for, as it ends.
func (t *topics) end() {
	for _, g := range t.standing() {
		if g.op == nil || g.op.key == "" {
			t.forsake(g)
			continue
		}
		t.withdraw(g.op)
		g.op.Write(store.Entry{State: store.Withdrawn})
	}
}
