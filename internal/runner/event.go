package runner

import (
	"cmp"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Event waits for an event of a topic.
//
// It is an operation that takes effect when a branch waits for it: the turn
// registers the wait at the topic under a key that is used once, which is in the
// operation's entry from the same turn on. The topic answers with a delivery. The
// turn that hands that over has the whole event in its entry and, of a consumed
// one, acknowledges it. A wait that ends without its event is withdrawn in the turn
// that ends it, and its delivery, wherever that is then, is consumed and means
// nothing: the topic knows by the withdrawal that the event was not taken.
//
// So every key that was registered is acknowledged, taken or withdrawn, and
// registrations holds those that are not yet, also those that the code has not
// asked for.
type Event struct {
	Call     Call
	Topic    string
	Visible  Visibility
	Deadline store.Time // 0: none
}

// Visibility says which events a wait may be given. One that was given to the run
// before is not given again.
type Visibility uint8

const (
	// SinceRun: those published since the run was started.
	SinceRun Visibility = iota
	// SinceWait: those published since the wait began.
	SinceWait
	// Retained: all that the topic has.
	Retained
)

// topicWait is what a wait for an event has besides.
type topicWait struct {
	spec  Event
	topic string // where it is registered; "": nowhere
	key   string
	given *event.Delivery // arrived; if it was not handed over, item is in the inbox
	item  store.ItemNo
	sent  store.Time // of the delivery
	hot   bool       // is in Run.hotEvents
}

// registration is a wait that stands at a topic.
type registration struct {
	wait  event.Wait
	op    *op          // nil: the code has not asked for it
	entry *store.Entry // of which it is recorded; nil: it is new
}

// Event waits for an event and returns it. With a deadline that wins the error is
// ErrTimeout.
func (b *Branch) Event(spec Event) (*event.Delivery, error) {
	if err := b.Enter(spec.Call); err != nil {
		return nil, err
	}
	o := b.eventOp(spec)
	err := b.waitOp(spec.Call, o)
	return o.event.given, err
}

func (b *Branch) eventOp(spec Event) *op {
	o := b.request(new(op), spec.Call, store.KindEvent)
	o.event, o.deadline = &topicWait{spec: spec}, spec.Deadline
	if o.rec == nil {
		return o
	}
	if o.rec.Wake != 0 {
		o.deadline = o.rec.Wake
	}
	var w event.Wait
	if o.rec.State == store.Open && event.Decode(o.rec.Value, &w) == nil { // else initEvents has said so
		if g := b.run.registrations[w.Key]; g != nil {
			o.event.topic, o.event.key, g.op = w.Topic, w.Key, o
		}
	}
	return o
}

// initEvents notes the waits that stand at topics.
func (r *Run) initEvents() {
	r.registrations = map[string]*registration{}
	for i := range r.cfg.Entries {
		e := &r.cfg.Entries[i]
		if e.Kind != store.KindEvent || e.State != store.Open {
			continue
		}
		var w event.Wait
		if err := event.Decode(e.Value, &w); err != nil {
			r.damaged(location.Loc(e.Loc), err)
			return
		}
		r.registrations[w.Key] = &registration{wait: w, entry: e}
	}
}

// startEvent registers a wait, unless it is registered. The run is live.
func (r *Run) startEvent(o *op) {
	x := o.event
	if x.key != "" && x.topic != x.spec.Topic { // the code has another one by now
		r.log.Send(event.Withdraw(x.topic, x.key))
		delete(r.registrations, x.key)
		x.key = ""
	}
	if x.key == "" {
		x.topic, x.key = x.spec.Topic, r.newKey(o)
		wait := event.Wait{Topic: x.topic, Key: x.key}
		r.log.Send(event.Register(x.topic, x.key, r.registrationOf(o)))
		r.write(o, store.Entry{State: store.Open, Wake: o.deadline, Started: o.asked, Value: event.Encode(wait)})
		r.registrations[x.key] = &registration{wait: wait, op: o}
	}
	if o.deadline != 0 {
		r.setTimer(o, o.deadline)
	}
	r.heatEvent(o)
}

// newKey returns a key that was never used.
func (r *Run) newKey(o *op) string {
	if r.cfg.NewKey != nil {
		return r.cfg.NewKey()
	}
	h := r.derive("wait", r.cfg.Run.Generation, o.loc, int64(r.bound))
	return hex.EncodeToString(h[:16])
}

// registrationOf says to the topic what the wait is for.
func (r *Run) registrationOf(o *op) *event.Registration {
	x, run := o.event, &r.cfg.Run
	heard := r.heard[x.topic]
	g := &event.Registration{Run: run.No, After: heard.last}
	switch x.spec.Visible {
	case SinceRun:
		g.Since = run.Created
		if run.Started != 0 && run.Started < g.Since {
			// A fork is as old as what it was forked from, of which this is known.
			if g.Since = run.Started; heard.first != 0 {
				g.Since = min(g.Since, heard.first)
			}
		}
	case SinceWait:
		g.Since = o.asked
	}
	for key, other := range r.registrations {
		if other.wait.Topic == x.topic {
			g.Open = append(g.Open, key)
		}
	}
	slices.Sort(g.Open)
	return g
}

// deliverEvent takes a delivery from the inbox. One that nothing waits for is
// consumed.
func (r *Run) deliverEvent(it store.Item) {
	if !r.live {
		r.deliveries = append(r.deliveries, it)
		r.log.See(&it)
		return
	}
	g := r.registrations[it.Name]
	if g == nil || g.op == nil || g.op.event.given != nil {
		r.Answer(it.No, nil)
		return
	}
	o := g.op
	d := new(event.Delivery)
	if err := event.Decode(it.Value, d); err != nil {
		r.damaged(o.loc, err)
		return
	}
	o.event.given, o.event.item, o.event.sent = d, it.No, it.Sent
	r.log.See(&it)
	r.heatEvent(o)
}

// heatEvent lists a wait whose event is there.
func (r *Run) heatEvent(o *op) {
	if x := o.event; x.given != nil && !x.hot && !o.Settled() {
		x.hot = true
		r.hotEvents = append(r.hotEvents, o)
	}
}

// matchEvent hands over one event. It reports whether there was one.
func (r *Run) matchEvent() bool {
	for i := 0; i < len(r.hotEvents); {
		o := r.hotEvents[i]
		wanted := !o.Settled() && !o.closed
		if wanted && !o.eventInTime() {
			i++ // the deadline is handed over first
			continue
		}
		r.hotEvents = without(r.hotEvents, i)
		o.event.hot = false
		if wanted {
			r.takeEvent(o)
			return true
		}
	}
	return false
}

// eventInTime reports whether the event that is there was sent to the run by the
// deadlines that it stands against.
func (o *op) eventInTime() bool {
	x := o.event
	return x.given != nil && (o.deadline == 0 || x.sent <= o.deadline) && !o.Late(x.sent)
}

// takeEvent hands over the event that is there, or the timeout.
func (r *Run) takeEvent(o *op) {
	x := o.event
	if !o.eventInTime() {
		o.failure = &stored.Failure{Code: stored.CodeTimeout, Message: "no event by " + o.deadline.String()}
		r.endWait(o)
	} else {
		r.log.Consume(x.item, nil)
		delete(r.registrations, x.key)
		r.hear(x.given)
		if x.given.Event.Mode == event.Consumed {
			r.log.Send(event.Ack(x.topic, x.key))
		}
	}
	r.handOver(o)
}

// hear notes that the run has taken an event.
func (r *Run) hear(d *event.Delivery) {
	if r.heard == nil {
		r.heard = map[string]heard{}
	}
	h := r.heard[d.Topic]
	if d.Event.Mode == event.Broadcast {
		h.last = max(h.last, d.Event.Number)
	}
	if h.first == 0 || d.Event.Sent < h.first {
		h.first = d.Event.Sent
	}
	r.heard[d.Topic] = h
}

// heard is what the history says of the events of a topic that were taken.
type heard struct {
	last  store.ItemNo // broadcast
	first store.Time   // when the first of them was published
}

// closeEvent ends a wait that was cancelled or has lost. While the run replays, a
// withdrawal that is recorded is durable; another is for when the run goes live.
func (r *Run) closeEvent(o *op) {
	switch {
	case o.event.key == "":
	case r.live:
		r.endWait(o)
		r.write(o, store.Entry{State: store.Withdrawn})
	default:
		r.replay.pending = append(r.replay.pending, o)
	}
}

// endWait withdraws a wait at its topic, and drops what it was given.
func (r *Run) endWait(o *op) {
	x := o.event
	if x.key == "" {
		return
	}
	if !r.log.Unsend(func(it *store.Item) bool { return it.Kind == store.ItemWait && it.Name == x.key }) {
		r.log.Send(event.Withdraw(x.topic, x.key))
	}
	delete(r.registrations, x.key)
	if x.key = ""; x.given != nil {
		x.given = nil
		r.Answer(x.item, nil)
	}
}

// standing returns the registrations in the order of their keys.
func (r *Run) standing() []*registration {
	if len(r.registrations) == 0 {
		return nil
	}
	all := slices.Collect(maps.Values(r.registrations))
	slices.SortFunc(all, func(a, b *registration) int { return cmp.Compare(a.wait.Key, b.wait.Key) })
	return all
}

// forsake withdraws a wait that the code has no more.
func (r *Run) forsake(g *registration) {
	e := history.Withdrawn(g.entry)
	r.log.Add(e)
	r.log.Send(event.Withdraw(g.wait.Topic, g.wait.Key))
	delete(r.registrations, g.wait.Key)
}

// forsakeAll withdraws what the run still waits for, as it ends.
func (r *Run) forsakeAll() {
	for _, g := range r.standing() {
		if g.op == nil || g.op.event.key == "" {
			r.forsake(g)
			continue
		}
		r.endWait(g.op)
		r.write(g.op, store.Entry{State: store.Withdrawn})
	}
}

// recallEvent takes the event of a wait from its record.
func (o *op) recallEvent(value []byte) error {
	d := new(event.Delivery)
	if err := event.Decode(value, d); err != nil {
		return err
	}
	o.event.given = d
	o.run.hear(d)
	return nil
}
