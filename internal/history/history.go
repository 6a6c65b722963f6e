package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// Refusal is why something cannot be done to a history.
type Refusal string

// Error returns the reason.
func (r Refusal) Error() string { return string(r) }

func refuseTo(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

// damaged returns the error of an entry whose value cannot be read.
func damaged(e *store.Entry, err error) error { return fmt.Errorf("entry %s: %w", place(e), err) }

// history is a history that is to be changed.
type history struct {
	entries []store.Entry // in the order of locations, with values
	last    int64         // completion number
	loops   map[location.Loc]stored.LoopProgress
	born    map[location.Loc]int64 // of the loops
}

func newHistory(entries []store.Entry) (*history, error) {
	h := &history{
		entries: entries,
		loops:   map[location.Loc]stored.LoopProgress{}, born: map[location.Loc]int64{},
	}
	for i := range entries {
		e := &entries[i]
		h.last = max(h.last, e.Seq)
		if e.Kind != store.KindLoop || isIteration(e) {
			continue
		}
		progress, err := stored.DecodeLoop(e.Value)
		if err != nil {
			return nil, damaged(e, err)
		}
		h.loops[place(e)], h.born[place(e)] = progress, e.Born
	}
	return h, nil
}

// at returns the entry at a location, or nil.
func (h *history) at(loc string) *store.Entry {
	i, found := slices.BinarySearchFunc(h.entries, loc, func(e store.Entry, loc string) int {
		return strings.Compare(e.Loc, loc)
	})
	if !found {
		return nil
	}
	return &h.entries[i]
}

// unknown returns the refusal for a location at which nothing is recorded.
func (h *history) unknown(at location.Loc) error {
	known := make([]location.Loc, len(h.entries))
	for i := range h.entries {
		known[i] = place(&h.entries[i])
	}
	text := fmt.Sprintf("unknown location %s: nothing is recorded there", at)
	for i, near := range location.Nearest(at, known, 3) {
		if text += ", "; i == 0 {
			text += "nearest are "
		}
		text += near.String()
	}
	return Refusal(text)
}

// cutAt returns the completion number of a location, or the first one inside it.
func (h *history) cutAt(at location.Loc, inside func(*store.Entry) bool) (int64, error) {
	for loop, n := range at.Loops() {
		if oldest := h.loops[loop].Oldest; n < oldest {
			return 0, refuseTo("the history of %s before iteration %d is pruned", loop, oldest)
		}
	}
	var cut int64
	found, open := at == "", at == ""
	for i := range h.entries {
		e := &h.entries[i]
		if !inside(e) {
			continue
		}
		found, open = true, open || e.State != store.Withdrawn
		entered := e.Loc == string(at) && isIteration(e)
		if e.Seq > 0 && !entered && (cut == 0 || e.Seq < cut) {
			cut = e.Seq
		}
	}
	switch {
	case !found:
		return 0, h.unknown(at)
	case !open:
		return 0, refuseTo(
			"%s was withdrawn before it completed, and has no place in the order: name what completed", at)
	case cut == 0:
		cut = h.last + 1
	}
	return cut, nil
}

// allows returns a Refusal if the history cannot be cut there.
func (h *history) allows(cut int64, at location.Loc) error {
	for loop, progress := range h.loops {
		if progress.Oldest > 0 && h.born[loop] < cut && cut <= progress.Number {
			return refuseTo("the cut lies in pruned history: of %s the iterations before %d are gone",
				loop, progress.Oldest)
		}
	}
	if first := h.firstUndone(); first != nil && cut > first.Seq {
		return refuseTo("it has undone %s, completion %d: it can be rewound to before that only, and %s is completion %d",
			place(first), first.Seq, at, cut)
	}
	if step := h.undoneAcross(cut, at); step != nil {
		return refuseTo("a saga has undone %s, completion %d: it can be rewound to before that, or to behind the saga, "+
			"and %s is completion %d", place(step), step.Seq, at, cut)
	}
	return nil
}

// failed returns the entry from which on a failed run is retried, or nil if its end alone
// is taken back. It is the first one of those that the run's failure wraps. If it wraps
// none, it is the first one of those that have failed and to which the code has not
// reacted: as far as is recorded, the end depends on them.
func (h *history) failed(run *store.Run) *store.Entry {
	failure, err := stored.DecodeFailure(run.Output)
	if err != nil {
		return nil
	}
	failures := map[string]*stored.Failure{}
	collect(failure, failures)
	later := h.lastRequests()
	var wrapped, open *store.Entry
	for i := range h.entries {
		e := &h.entries[i]
		if e.State != store.FailedEntry || e.Seq == 0 {
			continue
		}
		f := failures[place(e).String()]
		if f != nil && f.Attempts == e.Attempt && (wrapped == nil || e.Seq < wrapped.Seq) {
			wrapped = e
		}
		if (open == nil || e.Seq < open.Seq) && !reacted(e, later) {
			open = e
		}
	}
	if wrapped != nil {
		return wrapped
	}
	return open
}

// lastRequests returns for each place after how many completions its code has begun an
// operation, branch or loop in it last. The items of a map begin by themselves, and do
// not count.
func (h *history) lastRequests() map[location.Loc]int64 {
	first := map[location.Loc]int64{} // of what is at a place or inside it
	for i := range h.entries {
		e := &h.entries[i]
		if e.Kind == store.KindCancel {
			continue
		}
		for at := place(e); at != ""; at = at.Parent() {
			if born, known := first[at]; known && born <= e.Born {
				break
			}
			first[at] = e.Born
		}
	}
	last := map[location.Loc]int64{}
	for at, born := range first {
		if in := at.Parent(); !strings.HasPrefix(at.Base(), "[") {
			last[in] = max(last[in], born)
		}
	}
	return last
}

// reacted reports whether the branch in which an operation has completed, or one that has
// waited for that branch, has begun something afterwards.
func reacted(e *store.Entry, later map[location.Loc]int64) bool {
	for in := place(e).Parent(); ; in = in.Parent() {
		if later[in] >= e.Seq {
			return true
		}
		if in == "" {
			return false
		}
	}
}

// collect notes by location the failure f and those that it wraps.
func collect(f *stored.Failure, into map[string]*stored.Failure) {
	if f == nil {
		return
	}
	if f.Location != "" {
		into[f.Location] = f
	}
	collect(f.Cause, into)
	for _, cause := range f.Causes {
		collect(cause, into)
	}
}
