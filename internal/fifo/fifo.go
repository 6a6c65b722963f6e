// Package fifo is a queue of any type that reuses its memory.
package fifo

// Queue is a first-in, first-out queue. Its zero value is empty. It is not safe
// for concurrent use.
type Queue[T any] struct {
	// Choose returns which of the n items is next; nil: the first. It is for tests
	// of what depends on the order.
	Choose func(n int) int

	items []T
	head  int
}

// Len returns how many items there are.
func (q *Queue[T]) Len() int { return len(q.items) - q.head }

// Push adds an item at the end.
func (q *Queue[T]) Push(x T) {
	if q.head > 64 && q.head > len(q.items)/2 { // otherwise it would grow for as long as it is not empty
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, x)
}

// Peek returns the first item. There must be one.
func (q *Queue[T]) Peek() T { return q.items[q.head] }

// Pop removes the next item and returns it. There must be one.
func (q *Queue[T]) Pop() T {
	if q.Choose != nil {
		i := q.head + q.Choose(q.Len())
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

// Clear removes all items.
func (q *Queue[T]) Clear() {
	clear(q.items)
	q.items, q.head = q.items[:0], 0
}

// Room returns how many items the queue has memory for.
func (q *Queue[T]) Room() int { return cap(q.items) }
