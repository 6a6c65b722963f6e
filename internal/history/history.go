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
	return nil
}

// failed returns the entry that a run's failure wraps, of several the one with the
// lowest number. If it wraps none, it is the failed one with the highest number.
func (h *history) failed(run *store.Run) (*store.Entry, error) {
	var wrapped, last *store.Entry
	if failure, err := stored.DecodeFailure(run.Output); err == nil {
		failures := map[string]*stored.Failure{}
		collect(failure, failures)
		for i := range h.entries {
			e := &h.entries[i]
			if e.State != store.FailedEntry || e.Seq == 0 {
				continue
			}
			if last == nil || e.Seq > last.Seq {
				last = e
			}
			f := failures[place(e).String()]
			if f != nil && f.Attempts == e.Attempt && (wrapped == nil || e.Seq < wrapped.Seq) {
				wrapped = e
			}
		}
	}
	if wrapped != nil {
		return wrapped, nil
	}
	if last == nil {
		return nil, Refusal("no operation of it has failed, its function itself did: fix the code, then rewind it")
	}
	return last, nil
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
