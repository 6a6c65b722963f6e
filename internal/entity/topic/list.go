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
