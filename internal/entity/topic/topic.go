package topic

import (
	"encoding/binary"
	"slices"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/store"
)

// Rules are the rules of one topic's entity.
type Rules struct {
	state
	name string

	asks    []*wait // to be tried
	offers  []offer // to be tried with the waits, one after the other
	changed bool    // what the topic says of itself
}

// offer is an event that came, or came back.
type offer struct {
	event *held
	tried store.ItemNo // the place of the last wait that was tried
}

// New returns the rules of the topic.
func New(name string) *Rules { return &Rules{state: newState(), name: name} }

// Load implements entity.Rules.
func (r *Rules) Load(entries []store.Entry) error {
	if err := r.load(entries); err != nil {
		return err
	}
	r.asks = slices.Clone(r.waits.items)
	return nil
}

// Take implements entity.Rules.
func (r *Rules) Take(it *store.Item, now store.Time, w *entity.Writer) {
	var verdict []byte // of a request
	switch it.Kind {
	case store.ItemEvent:
		r.publish(it, w)
	case store.ItemWait:
		r.register(it, w)
	case store.ItemWithdraw:
		if it.Name == "" {
			r.leave(it.Value, w)
			break
		}
		r.withdraw(it.Name, w)
	case store.ItemAck:
		r.acknowledge(it.Name, w)
	case store.ItemReturn:
		r.takeBack(it, now, w)
	case store.ItemUpdate:
		verdict = r.request(it, now, w)
	}
	w.Consume(it.No, verdict)
	r.match(now, w)
	r.trim(w)
	r.show(w)
}

// Tick implements entity.Rules.
func (r *Rules) Tick(now store.Time, w *entity.Writer) {
	r.expire(now, w)
	r.match(now, w)
	r.trim(w)
	r.show(w)
}

// Wake implements entity.Rules.
func (r *Rules) Wake() store.Time {
	for r.deadlines.Len() > 0 {
		next := r.deadlines.Peek()
		if !r.outdated(next) {
			return next.at
		}
		r.deadlines.Pop()
	}
	return 0
}

// outdated reports whether a deadline stands no more.
func (r *Rules) outdated(d due) bool {
	return d.event.gone || d.event.to != "" || d.event.deadline != d.at
}

// show says how the topic stands, if that has changed.
func (r *Rules) show(w *entity.Writer) {
	if !r.changed {
		return
	}
	r.changed = false
	w.Put(metaLoc, event.Encode(&r.meta))
	s := Stats{Settings: r.Settings, Counts: r.Counts, Pending: r.waiting(), InFlight: r.inFlight, Waiting: r.idleWaits,
		Had: r.wants.had, Slow: r.slow(), Bytes: r.bytes, HadBytes: r.wants.hadBytes}
	w.Value(StatsName, event.Encode(&s))
}

func (r *Rules) publish(it *store.Item, w *entity.Writer) {
	var p event.Publication
	r.changed = true
	if err := event.Decode(it.Value, &p); err != nil {
		r.Counts.Refused++ // nobody of ours has written it
		return
	}
	r.Counts.Refused += p.Refused
	if p.Only {
		return
	}
	r.configure(p.Settings)
	r.Counts.Accepted++
	e := &held{Event: event.Event{Number: it.No, ID: it.ID, Mode: p.Settings.Mode, Sent: it.Sent, Value: p.Value,
		Headers: it.Headers}}
	if p.Settings.Expiry > 0 {
		e.Expires = it.Sent + store.Time(p.Settings.Expiry)
	}
	r.hold(e, w)
}

// hold takes an event in, and offers it.
func (r *Rules) hold(e *held, w *entity.Writer) {
	r.keep(e)
	r.list(e)
	w.Put(at(eventLoc, e.Number), event.Encode(&e.Event))
	r.offers = append(r.offers, offer{event: e})
}

// drop forgets an event.
func (r *Rules) drop(e *held, w *entity.Writer) {
	e.gone = true
	r.judge(e)
	r.bytes -= e.size
	delete(r.events, e.Number)
	w.Delete(at(eventLoc, e.Number))
	if e.Mode == event.Broadcast {
		w.Delete(at(countLoc, e.Number))
	}
	r.changed = true
}

func (r *Rules) register(it *store.Item, w *entity.Writer) {
	var reg event.Registration
	if err := event.Decode(it.Value, &reg); err != nil || reg.Run <= 0 || r.keys[it.Name] != nil {
		return // nobody of ours has written it
	}
	rd := r.readerOf(reg.Run)
	if rd.Last < reg.After {
		rd.Last = reg.After
		r.positions.Push(position{rd.Last, rd.run})
	}
	rd.Flights = slices.DeleteFunc(rd.Flights, func(f flight) bool {
		e := r.events[f.Number]
		taken := (e == nil || e.Mode == event.Broadcast) && !slices.Contains(reg.Open, f.Key)
		if taken {
			delete(r.keys, f.Key)
			r.landed(e)
		}
		return taken
	})
	wt := &wait{Key: it.Name, No: it.No, Since: reg.Since, reader: rd}
	rd.Waits = append(rd.Waits, wt)
	rd.Since = rd.since()
	r.ended(rd, false)
	r.keys[wt.Key] = rd
	r.waits.add(wt)
	r.idleWaits++
	r.asks = append(r.asks, wt)
	r.changed = true
	r.write(rd, w)
}

func (r *Rules) readerOf(run store.RunNo) *reader {
	rd := r.readers[run]
	if rd == nil {
		rd = &reader{run: run}
		r.readers[run] = rd
	}
	return rd
}

// landed notes that a flight of an event has ended. A consumed one, and one that is not
// held, have no need of it.
func (r *Rules) landed(e *held) {
	if e != nil && e.Mode == event.Broadcast {
		e.flights--
		r.judge(e)
	}
}

// write writes what stands of a reader; one that holds nothing goes.
func (r *Rules) write(rd *reader, w *entity.Writer) {
	if r.idle(rd) {
		delete(r.readers, rd.run)
		w.Delete(at(runLoc, rd.run))
		return
	}
	w.Put(at(runLoc, rd.run), event.Encode(rd))
}

// withdraw ends a wait. What it was given comes back.
func (r *Rules) withdraw(key string, w *entity.Writer) {
	rd := r.keys[key]
	if rd == nil {
		return
	}
	delete(r.keys, key)
	r.changed = true
	if wt := rd.wait(key); wt != nil {
		r.end(wt)
	} else if f, ok := rd.land(key); ok {
		r.landed(r.events[f.Number])
		r.comeBack(rd, f.Number, w)
	}
	r.write(rd, w)
}

// end removes a wait.
func (r *Rules) end(wt *wait) {
	wt.over = true
	r.idleWaits--
	wt.reader.Waits = slices.DeleteFunc(wt.reader.Waits, func(x *wait) bool { return x == wt })
}

// comeBack puts an event that was given to a reader, and not taken, back into its
// place.
func (r *Rules) comeBack(rd *reader, n store.ItemNo, w *entity.Writer) {
	e := r.events[n]
	switch {
	case e == nil:
	case e.Mode == event.Consumed:
		e.to = ""
		r.inFlight--
		r.list(e)
		r.offers = append(r.offers, offer{event: e})
	default:
		rd.open(e)
		e.runs--
		r.judge(e)
		r.count(e, w)
		r.asks = append(r.asks, rd.Waits...)
	}
}

// count writes how many runs got a broadcast event.
func (r *Rules) count(e *held, w *entity.Writer) {
	w.Put(at(countLoc, e.Number), binary.AppendUvarint(nil, uint64(max(e.runs, 0))))
}

func (r *Rules) acknowledge(key string, w *entity.Writer) {
	rd := r.keys[key]
	if rd == nil {
		return
	}
	f, ok := rd.land(key)
	if !ok {
		return
	}
	delete(r.keys, key)
	if e := r.events[f.Number]; e != nil && e.Mode == event.Consumed {
		r.inFlight--
		r.Counts.Received++
		r.drop(e, w)
	} else {
		r.landed(e)
	}
	r.write(rd, w)
}

// takeBack puts what a run had taken back into its place.
func (r *Rules) takeBack(it *store.Item, now store.Time, w *entity.Writer) {
	var back event.Return
	if err := event.Decode(it.Value, &back); err != nil || back.Event.Number <= 0 {
		return // nobody of ours has written it
	}
	r.changed = true
	n := back.Event.Number
	if back.Event.Mode == event.Consumed {
		if r.events[n] != nil {
			return // it is not taken
		}
		r.Counts.Received--
		e := &held{Event: back.Event}
		r.hold(e, w)
		if e.lost(now) {
			r.Counts.Expired++
			r.drop(e, w)
		}
		return
	}
	rd := r.readers[back.Run]
	if rd == nil {
		return // nothing is held that it may have had
	}
	r.ended(rd, false)
	if f, ok := rd.land(it.Name); ok {
		delete(r.keys, it.Name)
		r.landed(r.events[f.Number])
	}
	if e := r.events[n]; e != nil && back.Inherited {
		e.runs++ // it was never counted for this run
	}
	r.comeBack(rd, n, w)
	r.write(rd, w)
}

// expire drops the events whose deadline has passed, and readers that hold nothing
// any more.
func (r *Rules) expire(now store.Time, w *entity.Writer) {
	for r.deadlines.Len() > 0 && !w.Full() {
		next := r.deadlines.Peek()
		if !r.outdated(next) {
			if next.at > now {
				break
			}
			r.lapse(next.event, w)
		}
		r.deadlines.Pop()
	}
	oldest := r.broadcast.first()
	for r.positions.Len() > 0 && !w.Full() {
		p := r.positions.Peek()
		if oldest != nil && (*oldest).Number <= p.last {
			break
		}
		r.positions.Pop()
		if rd := r.readers[p.run]; rd != nil && rd.Last == p.last && r.idle(rd) {
			delete(r.readers, rd.run)
			w.Delete(at(runLoc, rd.run))
		}
	}
	if w.Full() {
		w.More()
	}
}

// lapse drops an event that nobody gets any more.
func (r *Rules) lapse(e *held, w *entity.Writer) {
	if e.runs > 0 {
		r.Counts.Received++
	} else {
		r.Counts.Expired++
	}
	r.drop(e, w)
}

// match tries the events with the waits in their order, and then what waits are not
// tried with all events yet, as far as the turn goes.
func (r *Rules) match(now store.Time, w *entity.Writer) {
	for !w.Full() {
		switch {
		case len(r.offers) > 0:
			if !r.offerOn(&r.offers[0], now, w) {
				r.offers[0] = offer{}
				r.offers = r.offers[1:]
			}
		case len(r.asks) > 0:
			wt := r.asks[0]
			r.asks = r.asks[1:]
			r.try(wt, now, w)
		default:
			r.asks, r.offers = nil, nil
			return
		}
	}
	if len(r.asks) > 0 || len(r.offers) > 0 {
		w.More()
	}
}

// offerOn tries an event with the waits that follow, up to one that gets something.
// It reports whether there may be more to try.
func (r *Rules) offerOn(o *offer, now store.Time, w *entity.Writer) bool {
	items := r.waits.items
	for i := r.waits.after(int64(o.tried)); i < len(items); i++ {
		if o.event.gone || o.event.to != "" {
			return false
		}
		o.tried = items[i].No
		if r.try(items[i], now, w) {
			return true
		}
	}
	return false
}

// try gives a wait what it may have. It reports whether there was anything.
func (r *Rules) try(wt *wait, now store.Time, w *entity.Writer) bool {
	if wt.over {
		return false
	}
	e := r.candidate(wt, now)
	if e == nil {
		return false
	}
	rd := wt.reader
	r.end(wt)
	rd.Flights = append(rd.Flights, flight{wt.Key, e.Number})
	if e.Mode == event.Consumed {
		e.to = wt.Key
		r.inFlight++
	} else {
		rd.got(e)
		r.positions.Push(position{rd.Last, rd.run})
		r.stand(rd)
		e.runs++
		e.flights++
		r.judge(e)
		r.count(e, w)
	}
	r.changed = true
	r.write(rd, w)
	w.Send(event.Deliver(rd.run, &event.Delivery{Topic: r.name, Key: wt.Key, Event: e.Event}))
	return true
}
