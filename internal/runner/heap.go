package runner

// minHeap is a binary heap; before orders it.
type minHeap[T any] struct {
	items  []T
	before func(a, b T) bool
	crowd  int // see weed
}

func (h *minHeap[T]) len() int { return len(h.items) }

func (h *minHeap[T]) peek() T { return h.items[0] }

func (h *minHeap[T]) push(x T) {
	h.items = append(h.items, x)
	for i := len(h.items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.before(h.items[i], h.items[parent]) {
			break
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		i = parent
	}
}

func (h *minHeap[T]) pop() T {
	top, last := h.items[0], len(h.items)-1
	h.items[0] = h.items[last]
	clear(h.items[last:])
	h.items = h.items[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && h.before(h.items[child+1], h.items[child]) {
			child++
		}
		if !h.before(h.items[child], h.items[i]) {
			break
		}
		h.items[i], h.items[child] = h.items[child], h.items[i]
		i = child
	}
	return top
}

// weed removes what matters no more, now and then: it is called before each push,
// and what it leaves is at most twice what matters, or few.
func (h *minHeap[T]) weed(matters func(T) bool) {
	if len(h.items) < h.crowd {
		return
	}
	items := h.items
	h.items = items[:0]
	for _, x := range items {
		if matters(x) {
			h.push(x) // overwrites what was read already
		}
	}
	clear(items[len(h.items):])
	h.crowd = 2*len(h.items) + 64
}

// fifo is a queue that reuses its memory.
type fifo[T any] struct {
	items  []T
	head   int
	choose func(n int) int // which of n is next; nil: the first. For tests of what depends on the order
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(x T) {
	if q.head > 64 && q.head > len(q.items)/2 { // else it would grow for as long as it is not empty
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, x)
}

func (q *fifo[T]) peek() T { return q.items[q.head] }

func (q *fifo[T]) pop() T {
	if q.choose != nil {
		i := q.head + q.choose(q.len())
		q.items[q.head], q.items[i] = q.items[i], q.items[q.head]
	}
	x := q.items[q.head]
	var zero T
	q.items[q.head] = zero
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return x
}
