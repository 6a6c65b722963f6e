package topic

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/heap"
	"github.com/stet-run/stet/store"
)

// Where things stand. Numbers are 16 digits, so that bytes and numbers have one
// order.
const (
	metaLoc  = "m"
	eventLoc = "e/"
	countLoc = "n/"
	runLoc   = "r/"
)

func at[N ~int64](prefix string, n N) string {
	digits := strconv.AppendInt(make([]byte, 0, 16), int64(n), 16)
	return prefix + "0000000000000000"[len(digits):] + string(digits)
}

// Counts are what a topic has counted since it was made.
type Counts struct {
	Accepted int64 `cbor:"1,keyasint,omitempty"`
	Received int64 `cbor:"2,keyasint,omitempty"`
	Expired  int64 `cbor:"3,keyasint,omitempty"`
	Refused  int64 `cbor:"4,keyasint,omitempty"`
}

// meta is what stands at metaLoc.
type meta struct {
	Settings event.Settings `cbor:"1,keyasint"`
	Counts   Counts         `cbor:"2,keyasint"`
}

// held is an event that the topic holds.
type held struct {
	event.Event
	deadline store.Time // after which nobody gets it; 0: none
	upto     store.Time // of a broadcast one: the latest Sent of those up to it
	to       string     // of a consumed one in flight: the key of the wait
	runs     int64      // that got a broadcast one
	flights  int        // of a broadcast one: waits that were given it, and may not have taken it
	holes    int        // of a broadcast one: readers that gave it back
	had      bool       // of a broadcast one: by all readers
	gone     bool
	size     int64 // of what the publisher has given
}

// wait is a registered wait that has got nothing.
type wait struct {
	Key   string       `cbor:"1,keyasint"`
	No    store.ItemNo `cbor:"2,keyasint"` // its place
	Since store.Time   `cbor:"3,keyasint,omitempty"`

	reader *reader
	over   bool // it got something, or was withdrawn
}

// flight is an event that was given to a wait.
type flight struct {
	Key    string       `cbor:"1,keyasint"`
	Number store.ItemNo `cbor:"2,keyasint"`
}

// reader is a run that waits, or has got something.
type reader struct {
	Last    store.ItemNo   `cbor:"1,keyasint,omitempty"` // broadcast
	Holes   []store.ItemNo `cbor:"2,keyasint,omitempty"` // in order, below or at Last
	Waits   []*wait        `cbor:"3,keyasint,omitempty"`
	Flights []flight       `cbor:"4,keyasint,omitempty"`
	Since   store.Time     `cbor:"5,keyasint,omitempty"` // the lowest of its waits, when it registered the last
	Ended   bool           `cbor:"6,keyasint,omitempty"` // and it wants nothing

	run      store.RunNo
	past     store.ItemNo // up to it the reader wants nothing, but for its holes
	standing bool         // past is known
}

// state is what a topic holds, indexed.
type state struct {
	meta
	events    map[store.ItemNo]*held
	broadcast list[*held] // by number
	pending   list[*held] // consumed and not in flight, by number
	waits     list[*wait] // by place
	keys      map[string]*reader
	readers   map[store.RunNo]*reader
	inFlight  int64
	bytes     int64 // of all events
	idleWaits int64
	deadlines heap.Min[due]
	positions heap.Min[position]
	wants     wants
}

type due struct {
	at    store.Time
	event *held
}

type position struct {
	last store.ItemNo
	run  store.RunNo
}

func newState() state {
	return state{
		events: map[store.ItemNo]*held{}, keys: map[string]*reader{}, readers: map[store.RunNo]*reader{},
		broadcast: list[*held]{number: func(e *held) int64 { return int64(e.Number) },
			gone: func(e *held) bool { return e.gone }},
		pending: list[*held]{number: func(e *held) int64 { return int64(e.Number) },
			gone: func(e *held) bool { return e.gone || e.to != "" }},
		waits: list[*wait]{number: func(w *wait) int64 { return int64(w.No) },
			gone: func(w *wait) bool { return w.over }},
		deadlines: heap.Min[due]{Before: func(a, b due) bool {
			return a.at < b.at || a.at == b.at && a.event.Number < b.event.Number
		}},
		positions: heap.Min[position]{Before: func(a, b position) bool {
			return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.run, b.run)) < 0
		}},
		wants: newWants(),
	}
}

// load reads what stands.
func (s *state) load(entries []store.Entry) error {
	bad := func(loc string, err error) error { return fmt.Errorf("entry %q: %w", loc, err) }
	for i := range entries {
		loc, value := entries[i].Loc, entries[i].Value
		if loc == metaLoc {
			if err := event.Decode(value, &s.meta); err != nil {
				return bad(loc, err)
			}
			continue
		}
		prefix, digits := loc[:min(len(loc), 2)], loc[min(len(loc), 2):]
		n, err := strconv.ParseInt(digits, 16, 64)
		if err != nil {
			return bad(loc, err)
		}
		switch prefix {
		case eventLoc:
			e := &held{}
			if err := event.Decode(value, &e.Event); err != nil {
				return bad(loc, err)
			}
			s.keep(e)
		case countLoc: // comes after the events
			count, used := binary.Uvarint(value)
			if e := s.events[store.ItemNo(n)]; e != nil && used > 0 {
				e.runs = int64(count)
			}
		case runLoc:
			r := &reader{run: store.RunNo(n)}
			if err := event.Decode(value, r); err != nil {
				return bad(loc, err)
			}
			s.readers[r.run] = r
		default:
			return bad(loc, fmt.Errorf("unknown: %w", store.ErrDamaged))
		}
	}
	return s.index()
}

// index makes the indexes of the entries that were read.
func (s *state) index() error {
	var waits []*wait
	for _, r := range s.readers {
		for _, w := range r.Waits {
			w.reader = r
			s.keys[w.Key] = r
			waits = append(waits, w)
		}
		for _, f := range r.Flights {
			s.keys[f.Key] = r
			if e := s.events[f.Number]; e != nil && e.Mode == event.Consumed {
				if e.to != "" {
					return fmt.Errorf("event %d is in flight to two waits: %w", f.Number, store.ErrDamaged)
				}
				e.to = f.Key
				s.inFlight++
			} else if e != nil {
				e.flights++
			}
		}
		if !r.Ended {
			s.holes(r, 1)
		}
		if len(r.Waits) > 0 {
			r.Since = r.since()
		}
		s.positions.Push(position{r.Last, r.run})
	}
	slices.SortFunc(waits, func(a, b *wait) int { return cmp.Compare(a.No, b.No) })
	for _, w := range waits {
		s.waits.add(w)
	}
	s.idleWaits = int64(len(waits))
	events := make([]*held, 0, len(s.events))
	for _, e := range s.events {
		events = append(events, e)
	}
	slices.SortFunc(events, func(a, b *held) int { return cmp.Compare(a.Number, b.Number) })
	for _, e := range events {
		s.list(e)
	}
	for _, r := range s.readers {
		s.stand(r)
	}
	s.weigh()
	for _, e := range events {
		s.judge(e)
	}
	return nil
}

// keep holds an event.
func (s *state) keep(e *held) {
	e.size = e.Size()
	s.bytes += e.size
	s.events[e.Number] = e
}

// list puts an event that is held into the indexes.
func (s *state) list(e *held) {
	s.deadline(e)
	switch {
	case e.Mode == event.Broadcast:
		e.upto = e.Sent
		if last := s.broadcast.last(); last != nil {
			e.upto = max(e.upto, (*last).upto)
		}
		s.broadcast.add(e)
	case e.to == "":
		s.pending.add(e)
	}
}

// deadline computes when an event that is not in flight is dropped.
func (s *state) deadline(e *held) {
	e.deadline = e.Expires
	if keep := s.Settings.Retention; keep > 0 {
		if until := e.Sent + store.Time(keep); e.deadline == 0 || until < e.deadline {
			e.deadline = until
		}
	}
	if e.deadline != 0 {
		s.deadlines.Push(due{e.deadline, e})
	}
}

// configure takes the settings of the last publication.
func (s *state) configure(c event.Settings) {
	former := s.Settings.Retention
	s.Settings = c
	if former == c.Retention {
		return
	}
	s.deadlines.Clear()
	for _, e := range s.events {
		s.deadline(e)
	}
}

// lost reports whether no run can get the event any more.
func (e *held) lost(now store.Time) bool { return e.deadline != 0 && e.deadline <= now }

// waiting returns the number of events that are not in flight.
func (s *state) waiting() int64 { return int64(len(s.events)) - s.inFlight }

// candidate returns the event that a wait gets, or nil.
func (s *state) candidate(w *wait, now store.Time) *held {
	var best *held
	for _, e := range s.pending.items {
		if !s.pending.gone(e) && !e.lost(now) && e.Sent >= w.Since {
			best = e
			break
		}
	}
	r := w.reader
	for _, n := range r.Holes {
		e := s.events[n]
		if e != nil && !e.lost(now) && e.Sent >= w.Since {
			if best == nil || e.Number < best.Number {
				best = e
			}
			break
		}
	}
	items := s.broadcast.items
	from := max(
		s.broadcast.after(int64(r.Last)),
		searchFunc(len(items), func(i int) bool { return items[i].upto >= w.Since }),
	)
	for _, e := range items[from:] {
		if best != nil && e.Number > best.Number {
			break
		}
		if !e.gone && !e.lost(now) && e.Sent >= w.Since {
			return e
		}
	}
	return best
}

// idle reports whether what a reader has says nothing any more.
func (s *state) idle(r *reader) bool {
	r.Flights = slices.DeleteFunc(r.Flights, func(f flight) bool {
		_, held := s.events[f.Number]
		if !held {
			delete(s.keys, f.Key)
		}
		return !held
	})
	r.Holes = slices.DeleteFunc(r.Holes, func(n store.ItemNo) bool { return s.events[n] == nil })
	if len(r.Waits) > 0 || len(r.Flights) > 0 {
		return false
	}
	oldest := s.broadcast.first()
	return oldest == nil || (*oldest).Number > r.Last
}

// wait returns a reader's wait of the key, or nil.
func (r *reader) wait(key string) *wait {
	for _, w := range r.Waits {
		if w.Key == key {
			return w
		}
	}
	return nil
}

// land removes a flight and returns it. ok is false if there is none of the key.
func (r *reader) land(key string) (f flight, ok bool) {
	i := slices.IndexFunc(r.Flights, func(f flight) bool { return f.Key == key })
	if i < 0 {
		return f, false
	}
	f = r.Flights[i]
	r.Flights = slices.Delete(r.Flights, i, i+1)
	return f, true
}

// since returns the lowest Since of a reader's waits, of which there are some.
func (r *reader) since() store.Time {
	lowest := r.Waits[0].Since
	for _, w := range r.Waits {
		lowest = min(lowest, w.Since)
	}
	return lowest
}

// open notes that a run has not got a broadcast event that it was given.
func (r *reader) open(e *held) {
	if i, found := slices.BinarySearch(r.Holes, e.Number); !found && e.Number <= r.Last {
		r.Holes = slices.Insert(r.Holes, i, e.Number)
		e.holes++
	}
}

// got notes that a run was given a broadcast event.
func (r *reader) got(e *held) {
	if i, found := slices.BinarySearch(r.Holes, e.Number); found {
		r.Holes = slices.Delete(r.Holes, i, i+1)
		e.holes--
	}
	r.Last = max(r.Last, e.Number)
}

// Stats are what a topic says of itself, as a value of its entity.
type Stats struct {
	Settings event.Settings `cbor:"1,keyasint"`
	Counts   Counts         `cbor:"2,keyasint"`
	Pending  int64          `cbor:"3,keyasint,omitempty"`
	InFlight int64          `cbor:"4,keyasint,omitempty"`
	Waiting  int64          `cbor:"5,keyasint,omitempty"` // waits of runs
	Had      int64          `cbor:"6,keyasint,omitempty"` // of Pending: those that all readers have had
	Slow     store.RunNo    `cbor:"7,keyasint,omitempty"` // the reader that is the furthest behind, 0: none is
	Bytes    int64          `cbor:"8,keyasint,omitempty"` // of all events that are held
	HadBytes int64          `cbor:"9,keyasint,omitempty"` // of those that all readers have had
}

// StatsName is the name of the value that holds the Stats.
const StatsName = "topic"

// DecodeStats reads a topic's Stats. The error wraps store.ErrDamaged.
func DecodeStats(data []byte) (Stats, error) {
	var s Stats
	err := event.Decode(data, &s)
	return s, err
}

// Full reports whether the topic takes no more events.
func (s *Stats) Full() bool {
	events, bytes := s.room(s.Settings)
	return events <= 0 || bytes <= 0
}
