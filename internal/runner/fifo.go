package runner

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
