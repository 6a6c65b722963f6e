package topic

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/store"
)

// model is a topic without an index, a store or a turn: what is done is done at once.
type model struct {
	events  map[store.ItemNo]*modelEvent
	waits   []*modelWait // in the order in which they came
	runs    map[store.RunNo]*modelRun
	flights map[string]*modelWait
	given   map[string]string // event ID by key
	counts  Counts
}

type modelEvent struct {
	id            string
	mode          event.Mode
	sent, expires store.Time
	held          bool
	to            string
	runs          int
}

type modelWait struct {
	key   string
	run   store.RunNo
	since store.Time
	event store.ItemNo
}

type modelRun struct {
	last store.ItemNo
	back map[store.ItemNo]bool
}

// match lets the wait that came first take what it may have, until none may.
func (m *model) match(now store.Time) {
	for i := 0; i < len(m.waits); i++ {
		w := m.waits[i]
		r := m.runs[w.run]
		for _, n := range slices.Sorted(maps.Keys(m.events)) {
			e := m.events[n]
			if !e.held || e.to != "" || e.sent < w.since || e.expires != 0 && e.expires <= now {
				continue
			}
			if e.mode == event.Broadcast && n <= r.last && !r.back[n] {
				continue
			}
			if e.mode == event.Broadcast {
				delete(r.back, n)
				r.last = max(r.last, n)
				e.runs++
			} else {
				e.to = w.key
			}
			w.event = n
			m.flights[w.key], m.given[w.key] = w, e.id
			m.waits = slices.Delete(m.waits, i, i+1)
			i--
			break
		}
	}
}

func (m *model) expire(now store.Time) {
	for _, e := range m.events {
		if !e.held || e.to != "" || e.expires == 0 || e.expires > now {
			continue
		}
		e.held = false
		if e.runs > 0 {
			m.counts.Received++
		} else {
			m.counts.Expired++
		}
	}
}

// trimmed takes over which events the topic has dropped because all runs have had them, and
// checks that it was right to.
func (m *model) trimmed(t *rapid.T, w *world, open []*modelWait, most, bytes int64) {
	for n, e := range m.events {
		if !e.held || w.rules.events[n] != nil {
			continue
		}
		if most == 0 && bytes == 0 || e.mode != event.Broadcast || e.runs == 0 {
			t.Fatalf("%s is dropped, which %d runs have had; the caps are %d, %d bytes", e.id, e.runs, most, bytes)
		}
		kept, keptBytes := w.rules.waiting(), w.rules.bytes
		if (most == 0 || kept < most) && (bytes == 0 || keptBytes+int64(len(e.id)) <= bytes) {
			t.Fatalf("%s is dropped, and %d of %d bytes are kept of %d of %d bytes", e.id, kept, keptBytes, most, bytes)
		}
		for _, x := range open {
			if r := m.runs[x.run]; m.flights[x.key] == nil && e.sent >= x.since && (n > r.last || r.back[n]) {
				t.Fatalf("%s is dropped, which %s waits for", e.id, x.key)
			} else if x.event == n && m.flights[x.key] != nil {
				t.Fatalf("%s is dropped, and %s may give it back", e.id, x.key)
			}
		}
		e.held = false
		m.counts.Received++
	}
}

// exact compares what the topic knows of the broadcast events that all have had with what
// its readers say, one by one.
func exact(t *rapid.T, s *state) {
	var had, hadBytes, bytes int64
	for n, e := range s.events {
		bytes += int64(len(e.Value))
		if e.Mode != event.Broadcast {
			continue
		}
		all, flights := e.runs > 0, 0
		for _, r := range s.readers {
			if r.Ended {
				continue
			}
			seen := r.past >= n || r.Last >= n
			all = all && seen && !slices.Contains(r.Holes, n)
			for _, f := range r.Flights {
				if f.Number == n {
					flights++
				}
			}
		}
		if all {
			had++
			hadBytes += int64(len(e.Value))
		}
		if all != e.had || flights != e.flights {
			t.Fatalf("of %s: had by all: %v, %d in flight; its readers say %v, %d", e.ID, e.had, e.flights, all, flights)
		}
		if most := int64(s.Settings.Cap); all && flights == 0 && most > 0 && s.waiting() > most {
			t.Fatalf("%s is kept, which all have had, and %d of %d are pending", e.ID, s.waiting(), most)
		}
		if most := s.Settings.CapBytes; all && flights == 0 && most > 0 && s.bytes > most {
			t.Fatalf("%s is kept, which all have had, and %d of %d bytes are held", e.ID, s.bytes, most)
		}
	}
	if had != s.wants.had || hadBytes != s.wants.hadBytes || bytes != s.bytes {
		t.Fatalf("it counts %d events of %d bytes that all have had, and %d bytes of all; there are %d of %d, and %d",
			s.wants.had, s.wants.hadBytes, s.bytes, had, hadBytes, bytes)
	}
}

// TestTopicIsAModel: whatever is published, waited for, withdrawn, taken and given
// back, in whichever turns and with crashes between them, the topic delivers what
// the model delivers, and its counts are those of the model.
func TestTopicIsAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		m := &model{
			events: map[store.ItemNo]*modelEvent{}, runs: map[store.RunNo]*modelRun{},
			flights: map[string]*modelWait{}, given: map[string]string{},
		}
		modes := rapid.SampledFrom([][]event.Mode{{event.Broadcast}, {event.Consumed},
			{event.Broadcast, event.Consumed}}).Draw(t, "modes")
		var open []*modelWait // registered and not ended, in the run's eyes
		var taken []event.Delivery
		next := 0
		key := func(list []*modelWait) *modelWait {
			if len(list) == 0 {
				return nil
			}
			return list[rapid.IntRange(0, len(list)-1).Draw(t, "wait")]
		}
		forget := func(x *modelWait) {
			open = slices.DeleteFunc(open, func(y *modelWait) bool { return y == x })
		}
		var delivered []event.Delivery
		most := rapid.SampledFrom([]int{0, 0, 1, 2, 4}).Draw(t, "cap")
		bytes := rapid.SampledFrom([]int64{0, 0, 2, 5, 12}).Draw(t, "cap in bytes")
		for range rapid.IntRange(1, 60).Draw(t, "acts") {
			switch rapid.IntRange(0, 10).Draw(t, "act") {
			case 0, 1, 2:
				mode := rapid.SampledFrom(modes).Draw(t, "mode")
				next++
				id := fmt.Sprint("e", next)
				s := event.Settings{Cap: most, CapBytes: bytes,
					Expiry: store.Delay(rapid.SampledFrom([]int{0, 0, 3, 8}).Draw(t, "expiry"))}
				n := w.publish(mode, s, id)
				e := &modelEvent{id: id, mode: mode, sent: w.now, held: true}
				if s.Expiry > 0 {
					e.expires = w.now + store.Time(s.Expiry)
				}
				m.events[n] = e
				m.counts.Accepted++
			case 3, 4, 5:
				next++
				x := &modelWait{key: fmt.Sprint("w", next), run: store.RunNo(rapid.IntRange(1, 4).Draw(t, "run"))}
				x.since = max(0, w.now-store.Time(rapid.SampledFrom([]int{0, 2, 100}).Draw(t, "since")))
				var others []string
				for _, o := range open {
					if o.run == x.run {
						others = append(others, o.key)
					}
				}
				w.wait(x.run, x.key, x.since, others...)
				open = append(open, x)
				m.waits = append(m.waits, x)
				if m.runs[x.run] == nil {
					m.runs[x.run] = &modelRun{back: map[store.ItemNo]bool{}}
				}
			case 6:
				x := key(open)
				if x == nil {
					break
				}
				forget(x)
				w.put(event.Withdraw("orders", x.key))
				m.waits = slices.DeleteFunc(m.waits, func(y *modelWait) bool { return y == x })
				if m.flights[x.key] != nil {
					delete(m.flights, x.key)
					e := m.events[x.event]
					e.to = ""
					if e.mode == event.Broadcast && e.held {
						e.runs--
						m.runs[x.run].back[x.event] = true
					}
				}
			case 7: // the run takes what was delivered
				for i := range delivered {
					d := delivered[i]
					j := slices.IndexFunc(open, func(x *modelWait) bool { return x.key == d.Key })
					if j < 0 || !rapid.Bool().Draw(t, "take") {
						continue
					}
					x := open[j]
					forget(x)
					delete(m.flights, x.key)
					taken = append(taken, d)
					if d.Event.Mode == event.Consumed {
						w.put(event.Ack("orders", d.Key))
						e := m.events[d.Event.Number]
						e.held, e.to = false, ""
						m.counts.Received++
					}
				}
			case 8: // a run is rewound
				if len(taken) == 0 {
					break
				}
				i := rapid.IntRange(0, len(taken)-1).Draw(t, "taken")
				d := taken[i]
				taken = slices.Delete(taken, i, i+1)
				run := w.runs[d.Key]
				w.put(event.GiveBack(&store.Run{No: run}, &d))
				e := m.events[d.Event.Number]
				switch {
				case d.Event.Mode == event.Consumed:
					e.held = true
					m.counts.Received--
				case e.held:
					e.runs--
					m.runs[run].back[d.Event.Number] = true
				}
			case 9: // a run that waits for nothing ends
				run := store.RunNo(rapid.IntRange(1, 4).Draw(t, "ended"))
				if !slices.ContainsFunc(open, func(x *modelWait) bool { return x.run == run }) {
					next++
					w.put(event.Leave("orders", fmt.Sprint(next), []store.RunNo{run}))
				}
			default:
				w.now += store.Time(rapid.IntRange(1, 5).Draw(t, "time"))
			}
			m.expire(w.now)
			m.match(w.now)
			switch rapid.IntRange(0, 5).Draw(t, "crash") {
			case 0:
				w.turn() // is lost
				w.load()
			case 1:
				if turn := w.turn(); turn != nil {
					w.commit(turn)
				}
				w.load()
			}
			if w.settle(); true {
				m.trimmed(t, w, open, int64(most), bytes)
				exact(t, &w.rules.state)
				delivered = append(delivered, w.sent...)
				for i, d := range w.sent {
					if w.runs[d.Key] = w.to[i]; m.given[d.Key] != d.Event.ID {
						t.Fatalf("%s got %s; want %q", d.Key, d.Event.ID, m.given[d.Key])
					}
					delete(m.given, d.Key)
				}
				if len(m.given) > 0 {
					t.Fatalf("nobody got %v", m.given)
				}
				w.got()
			}
			if w.stats.Counts != m.counts {
				t.Fatalf("it counts %+v; want %+v", w.stats.Counts, m.counts)
			}
		}
		// What holds nothing does not stay.
		for _, x := range open {
			w.put(event.Withdraw("orders", x.key))
		}
		w.publish(event.Broadcast, event.Settings{Retention: 1}, "last")
		w.now += 100
		w.settle()
		if w.stats.Pending != 0 || w.stats.InFlight != 0 || len(w.entries) != 1 {
			t.Fatalf("at the end %d entries stand and it says %+v", len(w.entries), w.stats)
		}
	})
}
