package store

import (
	"fmt"
	"slices"
	"strings"
)

// textOf returns the name of a number of an enumeration. what names the enumeration in errors. A
// number without a name has no text.
func textOf[T ~uint8](what string, names []string, v T) ([]byte, error) {
	if int(v) < len(names) && names[v] != "" {
		return []byte(names[v]), nil
	}
	return nil, fmt.Errorf("%s: expected %s, found number %d: %w", what, oneOf(names), uint8(v), ErrInvalid)
}

// fromText is the inverse of textOf. A text that is no name leaves v alone.
func fromText[T ~uint8](what string, names []string, v *T, text []byte) error {
	if i := slices.Index(names, string(text)); i >= 0 && len(text) > 0 {
		*v = T(i)
		return nil
	}
	return fmt.Errorf("%s: expected %s, found %q: %w", what, oneOf(names), text, ErrInvalid)
}

// oneOf lists names for an error: "a, b or c".
func oneOf(names []string) string {
	named := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })
	last := len(named) - 1
	return strings.Join(named[:last], ", ") + " or " + named[last]
}
