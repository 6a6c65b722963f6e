// Package heap is a binary heap of any type, without the conversions of
// container/heap.
package heap

// Min is a heap whose first item is the least by Before. Before must be set, and must be
// a strict order of all items. A Min is not safe for concurrent use.
type Min[T any] struct {
	Before func(a, b T) bool

	items []T
	crowd int // see Weed
}

// Len returns the number of items.
func (h *Min[T]) Len() int { return len(h.items) }

// Peek returns the first item. The heap must not be empty.
func (h *Min[T]) Peek() T { return h.items[0] }

// Clear removes all items.
func (h *Min[T]) Clear() { h.items = nil }

// Push adds an item.
func (h *Min[T]) Push(x T) {
	h.items = append(h.items, x)
	for i := len(h.items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.Before(h.items[i], h.items[parent]) {
			return
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		i = parent
	}
}

// Pop removes and returns the first item. The heap must not be empty.
func (h *Min[T]) Pop() T {
	top, last := h.items[0], len(h.items)-1
	h.items[0] = h.items[last]
	clear(h.items[last:])
	h.items = h.items[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return top
		}
		if child+1 < last && h.Before(h.items[child+1], h.items[child]) {
			child++
		}
		if !h.Before(h.items[child], h.items[i]) {
			return top
		}
		h.items[i], h.items[child] = h.items[child], h.items[i]
		i = child
	}
}

// Weed removes the items that do not matter any more, now and then. Call it before each
// Push: then at most about twice as many items are kept as matter.
func (h *Min[T]) Weed(matters func(T) bool) {
	if len(h.items) < h.crowd {
		return
	}
	items := h.items
	h.items = items[:0]
	for _, x := range items {
		if matters(x) {
			h.Push(x) // overwrites an item that was already read
		}
	}
	clear(items[len(h.items):])
	h.crowd = 2*len(h.items) + 64
}
