package runner

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// fakeTopics is what the topics would hold of what one run says to them.
type fakeTopics struct {
	waits     map[string]*standing // by key, all that ever were
	published map[string]bool      // IDs
	number    store.ItemNo

	given, strays, backs int // how often each happened
}

// standing is a wait that was registered.
type standing struct {
	key   string
	topic string
	event *event.Event // that it was given; nil: none
	taken bool
	told  string // "ack", "withdraw" or "return"
}

// hears takes what the run says to a topic.
func (j *durable) hears(topic string, it *store.Item) {
	o := &j.topics
	if o.waits == nil {
		o.waits, o.published = map[string]*standing{}, map[string]bool{}
	}
	s := o.waits[it.Name]
	if it.Kind != store.ItemEvent && it.Kind != store.ItemWait && s == nil {
		j.violate("a %s tells of the wait %q, which nobody has registered", it.Kind, it.Name)
		return
	}
	switch it.Kind {
	case store.ItemEvent:
		if o.published[it.ID] && !j.retried {
			j.violate("event %s is published twice", it.ID)
		}
		o.published[it.ID] = true
	case store.ItemWait:
		var r event.Registration
		if err := event.Decode(it.Value, &r); err != nil || s != nil || r.Run != j.run.No {
			j.violate("the wait %q is registered twice, or badly: %+v, %v", it.Name, r, err)
		}
		for key := range j.openWaits() {
			if o.waits[key] != nil && o.waits[key].topic == topic && !slices.Contains(r.Open, key) {
				j.violate("the wait %q is open and not named when %q is registered", key, it.Name)
			}
		}
		o.waits[it.Name] = &standing{key: it.Name, topic: topic}
	case store.ItemWithdraw:
		if s.told != "" || s.taken {
			j.violate("the wait %q is withdrawn after it was told (%q) or has taken its event (%t)", s.key, s.told, s.taken)
		}
		s.told = "withdraw"
	case store.ItemAck:
		if s.told != "" || s.event == nil || s.event.Mode != event.Consumed {
			j.violate("the wait %q is acknowledged after %q, of %+v", s.key, s.told, s.event)
		}
		s.told = "ack"
	case store.ItemReturn:
		if !s.taken || s.told == "return" {
			j.violate("the wait %q gives back what it has not taken (%q)", s.key, s.told)
		}
		s.told = "return"
		o.backs++
	}
}

// openWaits returns the entries of the waits that stand, by key.
func (j *durable) openWaits() map[string]store.Entry {
	open := map[string]store.Entry{}
	for _, e := range j.entries {
		var w event.Wait
		if e.Kind == store.KindEvent && e.State == store.Open {
			if err := event.Decode(e.Value, &w); err != nil {
				j.violate("entry %s: %v", location.Loc(e.Loc), err)
			}
			open[w.Key] = e
		}
	}
	return open
}

// takes notes which events a turn has taken.
func (j *durable) takes(t *store.Turn) {
	for _, e := range t.Entries {
		if e.Kind != store.KindEvent || e.State != store.Done {
			continue
		}
		var d event.Delivery
		err := event.Decode(e.Value, &d)
		s := j.topics.waits[d.Key]
		if err != nil || s == nil || s.event == nil || s.event.Number != d.Event.Number {
			j.violate("entry %s has taken %+v, which it was not given: %v", location.Loc(e.Loc), d, err)
		}
	}
	// An entry is not written if its iteration is pruned in the same turn, or its
	// incarnation ends.
	for _, c := range t.Consumed {
		if it := j.item(c.Item); it != nil && it.Kind == store.ItemDelivery {
			s := j.topics.waits[it.Name]
			s.taken = s.told != "withdraw"
		}
	}
}

// unsettled returns a wait of which a run that has ended has not said what became
// of it, or "".
func (j *durable) unsettled() string {
	for _, key := range slices.Sorted(maps.Keys(j.topics.waits)) {
		s := j.topics.waits[key]
		switch {
		case s.taken == (s.told == "withdraw"):
			return fmt.Sprintf("the wait %q ends with its event taken: %t, and has said %q", key, s.taken, s.told)
		case s.taken && s.event.Mode == event.Consumed && s.told != "ack" && s.told != "return":
			return fmt.Sprintf("the wait %q has taken a consumed event and said %q", key, s.told)
		}
	}
	return ""
}

// giveEvent gives an event to a wait that stands. It reports false if there is none.
func (d *driver) giveEvent() bool {
	open := d.j.openWaits()
	var keys []string
	for key, e := range open {
		if s := d.j.topics.waits[key]; s != nil && s.event == nil && s.told == "" && e.Loc != "" {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return false
	}
	slices.SortFunc(keys, func(a, b string) int { // keys differ from one try to the other
		return int(int64(hashOf(location.Loc(open[a].Loc))) - int64(hashOf(location.Loc(open[b].Loc))))
	})
	i := 0
	if d.random != nil {
		i = d.random.IntN(len(keys))
	}
	d.giveTo(d.j.topics.waits[keys[i]], location.Loc(open[keys[i]].Loc))
	return true
}

func (d *driver) giveTo(s *standing, loc location.Loc) {
	o := &d.j.topics
	o.number++
	o.given++
	mode := event.Mode(1 + hashOf(loc)>>5%2)
	value := []byte("event for " + loc.String())
	if hashOf(loc)>>7%5 == 0 {
		value = append(value, make([]byte, store.LargeValue)...)
	}
	s.event = &event.Event{Number: o.number, ID: fmt.Sprint("e", o.number), Mode: mode, Sent: d.clock, Value: value}
	c := event.Deliver(d.j.run.No, &event.Delivery{Topic: "t", Key: s.key, Event: *s.event})
	d.give(*c.Item)
}

// giveStray gives an event to a wait that was withdrawn: the topic did not know yet.
func (d *driver) giveStray() {
	for _, key := range slices.Sorted(maps.Keys(d.j.topics.waits)) {
		if s := d.j.topics.waits[key]; s.told == "withdraw" && s.event == nil {
			d.j.topics.strays++
			d.giveTo(s, "")
			return
		}
	}
}

// event is a statement that waits for an event, alone or with other things.
func (x *execution) event(b *Branch, s *stmt) error {
	e := Event{Call: at(s.name), Topic: fmt.Sprint("t", s.mail), Visible: Visibility(s.limit - 1)}
	if s.fail {
		e.Deadline = b.Now().Add(s.delay)
	}
	if s.times == 3 {
		won, err := b.Select(at("select"), []Case{
			{Timer: &Timer{Call: at(s.name + "-timer"), At: b.Now().Add(s.delay)}}, {Event: &e},
			{Receive: &Receive{Call: at(s.name + "-mail"), Names: []string{fmt.Sprint("m", s.mail)}, Max: 1}},
		})
		text := ""
		if won.Event != nil {
			text = string(won.Event.Event.Value)
		}
		x.note(b, s, fmt.Sprint("selected ", won.Index, len(text)), err)
		return err
	}
	d, err := b.Event(e)
	text := ""
	if err == nil {
		text = fmt.Sprint(len(d.Event.Value), d.Event.Mode)
	}
	x.note(b, s, text, err)
	if err == ErrTimeout {
		return nil
	}
	return err
}

func (x *execution) publish(b *Branch, s *stmt) error {
	id, err := b.Publish(Publish{Call: at(s.name), Topic: fmt.Sprint("t", s.mail),
		Publication: event.Publication{Value: []byte(s.name)}})
	x.note(b, s, len(id), err)
	return err
}
