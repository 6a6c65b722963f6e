package heap_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/heap"
)

// TestAgainstASortedList: random pushes, pops and weedings give what a sorted list
// would.
func TestAgainstASortedList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	h := heap.Min[int]{Before: func(a, b int) bool { return a < b }}
	var list []int
	gone := map[int]bool{}
	weeded := 0
	for next := range 100_000 {
		switch n := rng.IntN(10); {
		case n < 6:
			x := rng.IntN(1<<30)<<17 | next // no two are the same
			before := h.Len()
			h.Weed(func(x int) bool { return !gone[x] })
			weeded += before - h.Len()
			h.Push(x)
			i, _ := slices.BinarySearch(list, x)
			list = slices.Insert(list, i, x)
		case len(list) == 0:
		case n < 8:
			x := list[rng.IntN(len(list))]
			gone[x] = true
		default:
			for len(list) > 0 && gone[list[0]] {
				list = list[1:]
			}
			for h.Len() > 0 && gone[h.Peek()] {
				h.Pop()
			}
			if len(list) == 0 {
				continue
			}
			if got := h.Pop(); got != list[0] {
				t.Fatalf("expected %d to be first, got %d", list[0], got)
			}
			list = list[1:]
		}
	}
	if weeded == 0 {
		t.Error("nothing was weeded")
	}
	if h.Clear(); h.Len() != 0 {
		t.Errorf("%d items are left", h.Len())
	}
}
