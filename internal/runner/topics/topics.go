// Package topics holds the waits of a run that stand at topics, and what the run has heard
// there. It registers and withdraws waits in the turn, takes deliveries from the inbox, and
// hands events over in the order of their arrival.
package topics

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/journal"
	"github.com/stet-run/stet/store"
)

// Topics are the waits of a run at topics, and what it has heard there. Its methods are
// called by the goroutine that has the baton.
type Topics struct {
	j             *journal.Journal
	registrations map[string]*registration // by key
	early         []store.Item             // deliveries that came before the run was live
	heard         map[string]heard         // by topic
	arrived       journal.Lane             // their event is there
}

// New returns the waits of a run that stand in its history.
func New(j *journal.Journal) *Topics {
	t := &Topics{j: j}
	t.init()
	return t
}

// Next hands over the event that has come first. It reports whether there was one.
func (t *Topics) Next() bool { return t.arrived.Next() }

// Arrived returns how many events are to be looked at.
func (t *Topics) Arrived() int { return len(t.arrived) }

// registration is a wait that stands at a topic.
type registration struct {
	wait  event.Wait
	op    *wait        // nil: the code has not called it
	entry *store.Entry // of which it is recorded; nil: it is new
}

// heard is what the history says of the events of a topic that were taken.
type heard struct {
	last  store.ItemNo // broadcast
	first store.Time   // when the first of them was published
}

// init notes the waits that stand in the history.
func (t *Topics) init() {
	t.registrations = map[string]*registration{}
	for i := range t.j.Entries {
		e := &t.j.Entries[i]
		if e.Kind != store.KindEvent || e.State != store.Open {
			continue
		}
		var w event.Wait
		if err := event.Decode(e.Value, &w); err != nil {
			t.j.Owner.Damaged(location.Loc(e.Loc), err)
			return
		}
		t.registrations[w.Key] = &registration{wait: w, entry: e}
		t.passes(w.Topic, w.Refused)
	}
}

// found gives an operation the registration that its record has.
func (t *Topics) found(o *wait) {
	var w event.Wait
	if event.Decode(o.Rec.Value, &w) != nil {
		return // init has stalled the run
	}
	if g := t.registrations[w.Key]; g != nil {
		o.topic, o.key, o.refused, g.op = w.Topic, w.Key, w.Refused, o
	}
}

// registrationOf returns what the topic needs to know of the wait.
func (t *Topics) registrationOf(o *wait) *event.Registration {
	run := t.j.Run
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

// Deliver takes a delivery from the inbox. One that nothing waits for is consumed.
func (t *Topics) Deliver(it store.Item) {
	j := t.j
	if !j.Live() {
		t.early = append(t.early, it)
		j.Log.See(&it)
		return
	}
	g := t.registrations[it.Name]
	if g == nil || g.op == nil || g.op.given != nil {
		j.Answer(it.No, nil)
		return
	}
	o := g.op
	d := new(event.Delivery)
	if err := event.Decode(it.Value, d); err != nil {
		j.Owner.Damaged(o.Loc, err)
		return
	}
	if o.given, o.item, o.sent = d, it.No, it.Sent; o.refuses(&it) {
		return
	}
	j.Log.See(&it)
	o.arrive()
}

// GoLive withdraws the waits that Removed has accepted.
func (t *Topics) GoLive() {
	for _, g := range t.standing() {
		if g.op == nil {
			t.forsake(g)
		}
	}
}

// DeliverEarly looks at the deliveries that have come before the run was live.
func (t *Topics) DeliverEarly() {
	deliveries := t.early
	t.early = nil
	for i := range deliveries {
		deliveries[i].State = store.Seen // noted when they came
		t.Deliver(deliveries[i])
	}
}

// hear notes that the run has taken an event.
func (t *Topics) hear(d *event.Delivery) {
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

// passes notes that a broadcast event was refused; 0: none was.
func (t *Topics) passes(topic string, no store.ItemNo) {
	h := t.heard[topic]
	if no <= h.last {
		return
	}
	if t.heard == nil {
		t.heard = map[string]heard{}
	}
	h.last = no
	t.heard[topic] = h
}

// done notes that a wait does not stand any more.
func (t *Topics) done(o *wait) { delete(t.registrations, o.key) }

// Withdraw withdraws a wait at its topic, and drops what it was given.
func (t *Topics) withdraw(o *wait) {
	if o.key == "" {
		return
	}
	j := t.j
	registers := func(it *store.Item) bool { return it.Kind == store.ItemWait && it.Name == o.key }
	if !j.Log.Unsend(registers) {
		j.Log.Send(event.Withdraw(o.topic, o.key))
	}
	t.done(o)
	if o.key = ""; o.given != nil {
		o.given = nil
		j.Answer(o.item, nil)
	}
}

// standing returns the registrations in the order of their keys.
func (t *Topics) standing() []*registration {
	if len(t.registrations) == 0 {
		return nil
	}
	all := slices.Collect(maps.Values(t.registrations))
	slices.SortFunc(all, func(a, b *registration) int { return cmp.Compare(a.wait.Key, b.wait.Key) })
	return all
}

// forsake withdraws a wait that the code has no more.
func (t *Topics) forsake(g *registration) {
	t.j.Log.Add(history.Withdrawn(g.entry))
	t.j.Log.Send(event.Withdraw(g.wait.Topic, g.wait.Key))
	delete(t.registrations, g.wait.Key)
}

// End withdraws what the run still waits for, as it ends.
func (t *Topics) End() {
	for _, g := range t.standing() {
		if g.op == nil || g.op.key == "" {
			t.forsake(g)
			continue
		}
		t.withdraw(g.op)
		g.op.Write(store.Entry{State: store.Withdrawn})
	}
}
