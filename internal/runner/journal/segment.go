package journal

import (
	"sort"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/runner/sched"
	"github.com/stet-run/stet/store"
)

// Segment is what is pruned at once: the iterations of a loop from one that was entered
// by a hand-over, or the first one, to before the next one that was.
type Segment struct {
	Outer  *Segment // in which the loop stands; nil: none
	From   int64
	Number int64 // of the hand-over; 0: none

	entries int
	bytes   int
	owing   int      // completed steps that carry a compensation and were not undone
	pruned  []func() // called when it is pruned
}

// SegmentOf returns the segment in which a branch's code is; nil: in none.
func SegmentOf(b *sched.Branch) *Segment {
	s, _ := b.Scope().Value().(*Segment)
	return s
}

func (s *Segment) count(entries, bytes int) {
	for ; s != nil; s = s.Outer {
		s.entries += entries
		s.bytes += bytes
	}
}

// Owe notes that a completed step carries a compensation.
func (s *Segment) Owe() {
	for ; s != nil; s = s.Outer {
		s.owing++
	}
}

// Undone notes that such a step was undone.
func (s *Segment) Undone() {
	for ; s != nil; s = s.Outer {
		s.owing--
	}
}

// Owes reports whether a completed step of it carries a compensation, and was not undone.
func (s *Segment) Owes() bool { return s.owing > 0 }

// OnPrune registers fn to be called when the segment is pruned. In no segment it does
// nothing.
func (s *Segment) OnPrune(fn func()) {
	if s != nil {
		s.pruned = append(s.pruned, fn)
	}
}

// Absorb makes what another segment holds a part of this one: its loop is over.
func (s *Segment) Absorb(inner *Segment) { s.pruned = append(s.pruned, inner.pruned...) }

// Prune takes a segment from the size of the history and forgets what is held for it.
func (j *Journal) Prune(s *Segment) {
	j.Count(s.Outer, -s.entries, -s.bytes)
	for _, forget := range s.pruned {
		forget()
	}
}

// Keep notes that the iterations of a loop before one are pruned, which are in a span.
func (j *Journal) Keep(loop location.Loc, oldest int64, span store.Span) {
	j.pruned[loop] = oldest
	j.disregard(span)
}

// LoopEnded forgets what is pruned of a loop that is over.
func (j *Journal) LoopEnded(loop location.Loc) { delete(j.pruned, loop) }

// IsPruned reports whether a location is in an iteration that is pruned.
func (j *Journal) IsPruned(loc location.Loc) bool {
	if len(j.pruned) == 0 {
		return false
	}
	for loop, n := range loc.Loops() {
		if n < j.pruned[loop] {
			return true
		}
	}
	return false
}

// HasIn reports whether the history that is replayed has an entry in a span.
func (j *Journal) HasIn(span store.Span) bool {
	i := sort.Search(len(j.Entries), func(i int) bool { return j.Entries[i].Loc >= span.From })
	return i < len(j.Entries) && j.Entries[i].Loc < span.To
}
