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
	all []string // by any body of it, as recorded
	own []string // by the one that is executing
}

// Emit adds items to streams for the attempt, if it is the current one. Before the first
// item that a body adds to a stream to which a former one has, there is a mark. The streams
// are recorded in the act that adds the first item, so that this is known after a crash.
func (s *Steps) Emit(id int64, attempt int, items []Emission) {
	o := s.current(id, attempt)
	if o == nil || o.spec.Whole {
		return
	}
	at := stored.Emitted{Location: o.Loc.String(), Attempt: attempt}
	news := false
	for _, it := range items {
		if !slices.Contains(o.emitted.own, it.Stream) {
			if slices.Contains(o.emitted.all, it.Stream) {
				mark := at
				mark.Again = true
				s.j.Log.Append(store.Append{Name: it.Stream, Value: mark.Encode()})
			} else {
				o.emitted.all = append(slices.Clone(o.emitted.all), it.Stream)
				news = true
			}
			o.emitted.own = append(o.emitted.own, it.Stream)
		}
		item := at
		item.Value = it.Value
		s.j.Log.Append(store.Append{Name: it.Stream, Value: item.Encode(), Keep: it.Keep})
	}
	if news {
		o.writeProgress(0)
	}
}
