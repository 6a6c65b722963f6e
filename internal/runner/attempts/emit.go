package attempts

import (
	"slices"

	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Emission is an item that a body adds to a stream of its run.
type Emission struct {
	Stream string
	Value  []byte
	Keep   int64 // how many of the newest items the stream keeps; 0: all
}

// emitting is to which streams the bodies of a step have emitted.
type emitting struct {
	all   []string // by any body of it, as recorded
	own   []string // by the one that is executing; of a task also recorded
	lease int64    // of the task's worker that has emitted to own; 0: it is no task
}

// Emit adds items to streams for the attempt, if it is the current one. Before the first
// item that a body adds to a stream to which a former one has, there is a mark. The streams
// are recorded in the act that adds the first item, so that this is known after a crash.
func (s *Steps) Emit(id int64, attempt int, items []Emission) {
	o := s.current(id, attempt)
	if o == nil || o.spec.Whole {
		return
	}
	if o.emitted.lease != 0 { // it was a task before
		o.emitted.lease, o.emitted.own = 0, nil
	}
	if _, news := o.emit(items); news {
		o.writeProgress(0)
	}
}

// emit adds items of the current attempt's body to streams. It reports whether there are streams
// to which the body has not added before, and some to which no body has.
func (o *step) emit(items []Emission) (first, news bool) {
	log := &o.s.j.Log
	at := stored.Emitted{Location: o.Loc.String(), Attempt: o.attempt + 1}
	room := 0
	for _, it := range items {
		room += at.Size() + len(it.Value)
	}
	log.Expect(len(items))
	all := make([]byte, 0, room) // the items, one behind the other: one piece of memory
	for _, it := range items {
		if !slices.Contains(o.emitted.own, it.Stream) {
			first = true
			if slices.Contains(o.emitted.all, it.Stream) {
				mark := at
				mark.Again = true
				log.Append(store.Append{Name: it.Stream, Value: mark.Encode()})
			} else {
				o.emitted.all = append(slices.Clone(o.emitted.all), it.Stream)
				news = true
			}
			o.emitted.own = append(slices.Clone(o.emitted.own), it.Stream)
		}
		item := at
		item.Value = it.Value
		begin := len(all)
		all = item.AppendTo(all)
		log.Append(store.Append{Name: it.Stream, Value: slices.Clip(all[begin:]), Keep: it.Keep})
	}
	return first, news
}

// add adds items of a worker to streams. The run may leave memory between two requests of one
// lease, so that what the lease has added to is recorded.
func (o *step) add(items []Emission, lease int64) {
	if o.emitted.lease != lease {
		o.emitted.lease, o.emitted.own = lease, nil
	}
	if first, _ := o.emit(items); first {
		o.writeProgress(0)
	}
}
