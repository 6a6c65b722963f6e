package journal

import "slices"

// Arriving is an operation that is done by an item of the inbox.
type Arriving interface {
	Self() *Op
	// Wanted reports whether the code takes the completion.
	Wanted() bool
	// IsLate reports whether it has lost against a deadline, which is handed over first.
	IsLate() bool
	// Take hands it over.
	Take()
}

// Lane lists operations whose item is there, in the order of arrival.
type Lane []Arriving

// Add lists an operation, unless it is listed.
func (l *Lane) Add(x Arriving) {
	if o := x.Self(); !o.arrived {
		o.arrived = true
		*l = append(*l, x)
	}
}

// Next hands over the first that is wanted and not late. It reports whether there was
// one. What is not wanted leaves the lane.
func (l *Lane) Next() bool {
	for i := 0; i < len(*l); {
		x := (*l)[i]
		wanted := x.Wanted()
		if wanted && x.IsLate() {
			i++
			continue
		}
		*l = without(*l, i)
		x.Self().arrived = false
		if wanted {
			x.Take()
			return true
		}
	}
	return false
}

// without returns a list without one element, mostly the first.
func without[T any](list []T, i int) []T {
	if i == 0 {
		return list[1:]
	}
	return slices.Delete(list, i, i+1)
}
