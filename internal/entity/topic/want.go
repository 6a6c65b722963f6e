package topic

import (
	"cmp"
	"math"
	"slices"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/heap"
	"github.com/stet-run/stet/store"
)

// wants knows which broadcast events all readers have had.
type wants struct {
	low      store.ItemNo       // no reader may want an event up to it, but for its holes
	had      int64              // events that are held and that all readers have had
	hadBytes int64              // of these
	behind   heap.Min[position] // of the readers; some stand no more
	spare    list[*held]        // may be dropped; some may not any more
}

func newWants() wants {
	return wants{
		low: math.MaxInt64,
		behind: heap.Min[position]{Before: func(a, b position) bool {
			return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.run, b.run)) < 0
		}},
		spare: list[*held]{number: func(e *held) int64 { return int64(e.Number) },
			gone: func(e *held) bool { return !e.droppable() }},
	}
}

// droppable reports whether all readers have had the event, and none of them may still
// give it back unasked: a reader that does not take what it was given gets it again.
func (e *held) droppable() bool { return e.had && e.flights == 0 }

// stand notes up to where a reader may want nothing: what it was given last, and what was
// published before its waits look.
func (s *state) stand(r *reader) {
	if r.Ended {
		r.standing = false
		return
	}
	past := r.Last
	items := s.broadcast.items
	if i := searchFunc(len(items), func(i int) bool { return items[i].upto >= r.Since }); i > 0 {
		past = max(past, items[i-1].Number)
	}
	if past == r.past && r.standing {
		return
	}
	r.past, r.standing = past, true
	s.wants.behind.Weed(s.stands)
	s.wants.behind.Push(position{past, r.run})
}

// ended notes whether a reader's run has ended, as far as the topic knows.
func (s *state) ended(r *reader, yes bool) {
	if r.Ended != yes {
		r.Ended = yes
		s.holes(r, map[bool]int{true: -1, false: 1}[yes])
	}
	s.stand(r)
}

// holes counts the holes of a reader at their events, or no longer.
func (s *state) holes(r *reader, by int) {
	for _, n := range r.Holes {
		if e := s.events[n]; e != nil {
			e.holes += by
			s.judge(e)
		}
	}
}

// stands reports whether it is where a reader is.
func (s *state) stands(p position) bool {
	r := s.readers[p.run]
	return r != nil && r.standing && r.past == p.last
}

// slowest returns the reader that is the furthest behind. ok is false if there is none.
func (s *state) slowest() (p position, ok bool) {
	for s.wants.behind.Len() > 0 {
		if p = s.wants.behind.Peek(); s.stands(p) {
			return p, true
		}
		s.wants.behind.Pop()
	}
	return p, false
}

// judge notes whether all readers have had an event: some run got it, none is before it,
// and none has it in a hole. One that nobody got is kept for runs that come later.
func (s *state) judge(e *held) {
	if e.Mode != event.Broadcast {
		return
	}
	had := !e.gone && e.runs > 0 && e.holes == 0 && e.Number <= s.wants.low
	switch {
	case had && !e.had:
		s.wants.had++
		s.wants.hadBytes += e.size
	case !had && e.had:
		s.wants.had--
		s.wants.hadBytes -= e.size
	}
	if e.had = had; e.droppable() {
		s.wants.spare.add(e)
	}
}

// weigh judges the events between where the slowest reader was and where it is.
func (s *state) weigh() {
	was, is := s.wants.low, store.ItemNo(math.MaxInt64)
	if p, ok := s.slowest(); ok {
		is = p.last
	}
	if was == is {
		return
	}
	s.wants.low = is
	items := s.broadcast.items
	for _, e := range items[s.broadcast.after(int64(min(was, is))):s.broadcast.after(int64(max(was, is)))] {
		s.judge(e)
	}
}

// wanted returns the number of pending events that some run may still want.
func (s *Stats) wanted() int64 { return s.Pending - s.Had }

// wantedBytes returns the size of the events that are held and that some run may still want,
// or has not acknowledged.
func (s *Stats) wantedBytes() int64 { return s.Bytes - s.HadBytes }

// room returns for how many events and bytes a topic has room by the settings. One event may
// exceed the bytes.
func (s *Stats) room(by event.Settings) (events, bytes int64) {
	events, bytes = math.MaxInt64, math.MaxInt64
	if by.Cap > 0 {
		events = int64(by.Cap) - s.wanted()
	}
	if by.CapBytes > 0 {
		bytes = by.CapBytes - s.wantedBytes()
	}
	return events, bytes
}

// slow returns the run that has not had events which all others may have had, 0: none.
func (s *state) slow() store.RunNo {
	p, ok := s.slowest()
	if last := s.broadcast.last(); !ok || last == nil || (*last).Number <= p.last {
		return 0
	}
	return p.run
}

// leave notes which runs have ended. One that waits goes on meanwhile.
func (r *Rules) leave(value []byte, w *entity.Writer) {
	var ended event.Ended
	if event.Decode(value, &ended) != nil {
		return // nobody of ours has written it
	}
	for _, run := range ended.Runs {
		rd := r.readers[run]
		if rd == nil || len(rd.Waits) > 0 {
			continue
		}
		rd.Flights = slices.DeleteFunc(rd.Flights, func(f flight) bool {
			e := r.events[f.Number]
			taken := e == nil || e.Mode == event.Broadcast
			if taken {
				delete(r.keys, f.Key)
				r.landed(e)
			}
			return taken
		})
		r.changed = true
		r.ended(rd, true)
		r.write(rd, w)
	}
}

// trim drops the oldest events that all readers have had, while more are kept than Cap or
// CapBytes says.
func (r *Rules) trim(w *entity.Writer) {
	r.weigh()
	most, bytes := int64(r.Settings.Cap), r.Settings.CapBytes
	for most > 0 && r.waiting() > most || bytes > 0 && r.bytes > bytes {
		if w.Full() {
			w.More()
			return
		}
		oldest := r.wants.spare.first()
		if oldest == nil {
			return
		}
		r.Counts.Received++
		r.drop(*oldest, w)
	}
}

// idleReaders returns the runs that wait for nothing, and may have ended, from the entries
// of readers. The error wraps store.ErrDamaged.
func idleReaders(entries []store.Entry) ([]store.RunNo, error) {
	s := newState()
	if err := s.load(entries); err != nil {
		return nil, err
	}
	var idle []store.RunNo
	for no, r := range s.readers {
		if len(r.Waits) == 0 && !r.Ended {
			idle = append(idle, no)
		}
	}
	slices.Sort(idle)
	return idle, nil
}
