package store

// Separator is implemented by a store that writes a few kinds of turns much slower than the others, and with them the
// whole batch that they are in. An engine writes them in batches of their own, so that other runs do not wait for
// each of them. A store that wraps another and hides this is slower, and nothing else.
type Separator interface {
	// Separate reports whether a turn is of such a kind. It is safe for concurrent use.
	Separate(*Turn) bool
}

// SeparateOf returns what Separate of a store says; of one that is no Separator: never.
func SeparateOf(s Store) func(*Turn) bool {
	if by, ok := s.(Separator); ok {
		return by.Separate
	}
	return func(*Turn) bool { return false }
}
