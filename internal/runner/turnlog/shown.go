package turnlog

import (
	"slices"

	"github.com/stet-run/stet/store"
)

// shown is what the turn says to readers.
type shown struct {
	values  []store.Setting
	places  map[string]int // in values, by name
	appends []store.Append
	tags    []store.Pair
	answers []store.Consumption
	size    int // bytes of values
}

// rows is how many rows of a store it takes.
func (s *shown) rows() int {
	return len(s.values) + len(s.appends) + len(s.tags) + len(s.answers)
}

// ShownSize returns how many rows of a store the turn shows to readers, and the bytes
// of their values.
func (s *shown) ShownSize() (rows, bytes int) { return s.rows(), s.size }

// set gives a named value new content.
func (s *shown) set(name string, value []byte) {
	at, found := s.places[name]
	if !found {
		if s.places == nil {
			s.places = map[string]int{}
		}
		at = len(s.values)
		s.places[name] = at
		s.values = append(s.values, store.Setting{Name: name})
	}
	s.size += len(value) - len(s.values[at].Value)
	s.values[at].Value = value
}

// Set gives a named value new content.
func (l *Log) Set(name string, value []byte) {
	if at, found := l.places[name]; found {
		former := l.values[at].Value
		l.onRestore(func() { l.values[at].Value = former })
	} else {
		l.onRestore(func() { delete(l.places, name) })
	}
	l.shown.set(name, value)
}

// Expect makes room for so many items.
func (s *shown) Expect(items int) { s.appends = slices.Grow(s.appends, items) }

// Append adds an item to a stream.
func (s *shown) Append(a store.Append) {
	s.appends = append(s.appends, a)
	s.size += len(a.Value)
}

// WithTags returns the tags that the turn sets with others besides. A later one of a
// key replaces the earlier.
func (s *shown) WithTags(tags []store.Pair) []store.Pair {
	set := slices.Clone(s.tags)
	for _, tag := range tags {
		if i := slices.IndexFunc(set, func(t store.Pair) bool { return t.Key == tag.Key }); i >= 0 {
			set[i] = tag
		} else {
			set = append(set, tag)
		}
	}
	return set
}

// SetTags replaces the tags that the turn sets.
func (s *shown) SetTags(tags []store.Pair) { s.tags = tags }

// Answer answers an update.
func (s *shown) Answer(a store.Consumption) {
	s.answers = append(s.answers, a)
	s.size += len(a.Verdict)
}
