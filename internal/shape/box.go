package shape

import (
	"cmp"
	"math"
	"slices"

	"github.com/stet-run/stet/internal/heap"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// Box is an operation, a scope with operations in it, or both.
type Box struct {
	Loc    location.Loc // "" of the run
	Entry  int          // index; -1: it is a scope that has no entry
	Parent int          // index of the box around it; -1 of the run

	// Stages are what is directly in it: stages one after the other, of each the lanes
	// beside each other, of each the indexes of boxes in sequence.
	Stages [][][]int

	Open, Done, Failed, Withdrawn int        // entries at and in it
	From, To                      store.Time // of these the first begin and the last end; To is 0 if one is open

	asked int64 // number of the last completion before the first of them was requested; never: none counts
	last  int64 // the last completion in it
}

// never is after each completion: of what is open.
const never = math.MaxInt64

// BoxesOf returns the boxes of a history, that of the run first and each before those in
// it. The entries are in the order of locations, as a store gives them.
func BoxesOf(entries []store.Entry) []Box {
	boxes := []Box{{Entry: -1, Parent: -1, asked: never}}
	inside := [][]int{nil} // of each box
	open := []int{0}       // the path to the latest box
	for i := range entries {
		loc := location.Loc(entries[i].Loc)
		for len(open) > 1 && !boxes[open[len(open)-1]].Loc.Contains(loc) {
			open = open[:len(open)-1]
		}
		for _, at := range loc.Prefixes(boxes[open[len(open)-1]].Loc) {
			around := open[len(open)-1]
			inside[around] = append(inside[around], len(boxes))
			open = append(open, len(boxes))
			boxes = append(boxes, Box{Loc: at, Entry: -1, Parent: around, asked: never})
			inside = append(inside, nil)
		}
		b := &boxes[open[len(open)-1]]
		b.Entry = i
		b.add(&entries[i])
	}
	for i := len(boxes) - 1; i >= 0; i-- {
		b := &boxes[i]
		if b.Parent >= 0 {
			boxes[b.Parent].include(b)
		}
		b.Stages = stages(boxes, inside[i])
	}
	return boxes
}

// add counts the box's own entry.
func (b *Box) add(e *store.Entry) {
	if !e.Kind.Undoes() { // it comes much later than its step, and is shown at it
		b.include(&Box{asked: e.Born, last: lastOf(e), From: e.Started, To: e.Ended})
	}
	switch e.State {
	case store.Open:
		b.Open++
	case store.Done:
		b.Done++
	case store.FailedEntry:
		b.Failed++
	case store.Withdrawn:
		b.Withdrawn++
	}
}

// include adds what is in a box to the one around it.
func (b *Box) include(c *Box) {
	if c.asked != never {
		if b.asked == never || c.From < b.From {
			b.From = c.From
		}
		b.asked, b.last = min(b.asked, c.asked), max(b.last, c.last)
		if b.To = max(b.To, c.To); b.last == never {
			b.To = 0
		}
	}
	b.Open, b.Done, b.Failed, b.Withdrawn = b.Open+c.Open, b.Done+c.Done, b.Failed+c.Failed, b.Withdrawn+c.Withdrawn
}

// lastOf returns the completion with which an entry ended.
func lastOf(e *store.Entry) int64 {
	switch {
	case e.Seq > 0:
		return e.Seq
	case e.State == store.Open && waitsFor(e):
		return never
	case e.State == store.Withdrawn:
		return e.Born + 1 // at the earliest: what won was handed over after it was requested
	}
	return e.Born // it took no time
}

// stages lays out boxes that are directly in one box.
func stages(boxes []Box, inside []int) [][][]int {
	if len(inside) == 0 {
		return nil
	}
	slices.SortFunc(inside, func(i, j int) int {
		a, b := &boxes[i], &boxes[j]
		return cmp.Or(cmp.Compare(a.asked, b.asked), compareBool(a.last > a.asked, b.last > b.asked), cmp.Compare(i, j))
	})
	var out [][][]int
	for begin := 0; begin < len(inside); {
		last, end := boxes[inside[begin]].last, begin+1
		for end < len(inside) && boxes[inside[end]].asked < last {
			last = max(last, boxes[inside[end]].last)
			end++
		}
		out = append(out, lanes(boxes, inside[begin:end]))
		begin = end
	}
	return out
}

// compareBool puts false first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// free is a lane whose last box ended with a completion.
type free struct {
	last int64
	lane int
}

// lanes puts boxes, in the order of their requests, into as few lanes as their overlaps
// need. A box goes on in the lane whose end has caused it, if there is one.
func lanes(boxes []Box, stage []int) [][]int {
	var out [][]int
	ends := heap.Min[free]{Before: func(a, b free) bool {
		return a.last < b.last || a.last == b.last && a.lane < b.lane
	}}
	ended := map[int64]int{} // the lane that ended with a completion
	ending := []int64{}      // the completion with which a lane ends
	for _, i := range stage {
		b := &boxes[i]
		lane, found := ended[b.asked]
		found = found && ending[lane] == b.asked
		for !found && ends.Len() > 0 && ends.Peek().last <= b.asked {
			end := ends.Pop()
			lane, found = end.lane, ending[end.lane] == end.last // otherwise it has gone on
		}
		if !found {
			lane, out, ending = len(out), append(out, nil), append(ending, 0)
		}
		out[lane] = append(out[lane], i)
		ending[lane], ended[b.last] = b.last, lane
		ends.Push(free{b.last, lane})
	}
	return out
}
