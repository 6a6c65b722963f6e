package topic

import "sort"

// list is in the order of numbers, which do not repeat. What is gone is skipped,
// and removed now and then.
type list[T any] struct {
	items  []T
	number func(T) int64
	gone   func(T) bool
	crowd  int // length at which to look for what is gone
}

func searchFunc(n int, f func(int) bool) int { return sort.Search(n, f) }

// after returns the index of the first item with a number above n.
func (l *list[T]) after(n int64) int {
	return sort.Search(len(l.items), func(i int) bool { return l.number(l.items[i]) > n })
}

// add inserts an item, mostly at the end, in place of one with its number.
func (l *list[T]) add(x T) {
	if len(l.items) >= l.crowd {
		l.weed()
		l.crowd = 2*len(l.items) + 64
	}
	n := l.number(x)
	i := len(l.items)
	if i > 0 && l.number(l.items[i-1]) >= n {
		i = sort.Search(i, func(i int) bool { return l.number(l.items[i]) >= n })
		if l.number(l.items[i]) == n {
			l.items[i] = x
			return
		}
	}
	l.items = append(l.items, x)
	copy(l.items[i+1:], l.items[i:])
	l.items[i] = x
}

func (l *list[T]) weed() {
	var stay []T
	for _, x := range l.items {
		if !l.gone(x) {
			stay = append(stay, x)
		}
	}
	l.items = stay
}

// first returns the first item that is not gone, or nil. What is gone before it is
// removed.
func (l *list[T]) first() *T {
	for len(l.items) > 0 {
		if !l.gone(l.items[0]) {
			return &l.items[0]
		}
		var none T
		l.items[0] = none
		l.items = l.items[1:]
	}
	return nil
}

// last returns the last item, gone or not, or nil.
func (l *list[T]) last() *T {
	if len(l.items) == 0 {
		return nil
	}
	return &l.items[len(l.items)-1]
}

// heap is a binary heap; before orders it.
type heap[T any] struct {
	items  []T
	before func(a, b T) bool
}

func (h *heap[T]) len() int { return len(h.items) }

func (h *heap[T]) peek() T { return h.items[0] }

func (h *heap[T]) push(x T) {
	h.items = append(h.items, x)
	for i := len(h.items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.before(h.items[i], h.items[parent]) {
			return
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		i = parent
	}
}

func (h *heap[T]) pop() T {
	top, last := h.items[0], len(h.items)-1
	h.items[0] = h.items[last]
	clear(h.items[last:])
	h.items = h.items[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return top
		}
		if child+1 < last && h.before(h.items[child+1], h.items[child]) {
			child++
		}
		if !h.before(h.items[child], h.items[i]) {
			return top
		}
		h.items[i], h.items[child] = h.items[child], h.items[i]
		i = child
	}
}
