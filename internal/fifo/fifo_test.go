package fifo_test

import (
	"testing"

	"github.com/stet-run/stet/internal/fifo"
)

func TestFirstInFirstOut(t *testing.T) {
	var q fifo.Queue[int]
	for i := range 10 {
		q.Push(i)
	}
	for i := range 10 {
		if q.Len() != 10-i || q.Peek() != i || q.Pop() != i {
			t.Fatalf("item %d does not come in its turn", i)
		}
	}
	if q.Len() != 0 {
		t.Errorf("%d items are left in an empty queue", q.Len())
	}
}

// TestMemoryIsReused: a queue that never becomes empty keeps room for what it
// holds, not for all that went through it.
func TestMemoryIsReused(t *testing.T) {
	var q fifo.Queue[int]
	q.Push(0)
	for i := range 10_000 {
		q.Push(i + 1)
		if got := q.Pop(); got != i {
			t.Fatalf("the queue gives %d, want %d", got, i)
		}
	}
	if q.Room() > 1000 {
		t.Errorf("a queue with one element keeps room for %d", q.Room())
	}
}

func TestChoose(t *testing.T) {
	q := fifo.Queue[int]{Choose: func(n int) int { return n - 1 }}
	for i := range 3 {
		q.Push(i)
	}
	for _, want := range []int{2, 0, 1} { // the chosen one changes places with the first
		if got := q.Pop(); got != want {
			t.Fatalf("the queue gives %d, want %d", got, want)
		}
	}
	q.Push(1)
	q.Clear()
	if q.Len() != 0 {
		t.Error("a cleared queue is not empty")
	}
}
