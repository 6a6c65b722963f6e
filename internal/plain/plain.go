// Package plain knows of which values the decoded copy is sure to be equal.
//
// Workflow code gets what a replay would get: the decoded copy of a result. To decode a
// new result would be work for nothing if the copy is known to be equal, as it is of most:
// numbers, booleans, strings, and structs of these, whose encoding is encoding/json's own.
package plain

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"unicode/utf8"
)

// shape says how values of a type are examined.
type shape struct {
	plain bool
	texts [][]int // the fields that are strings, as reflect.Value.FieldByIndex takes them
}

var shapes sync.Map // shape by reflect.Type

// SurvivesJSON reports whether v, encoded by encoding/json and decoded into a new value of
// its type, is equal to v and shares nothing with it that can be changed. A false may be
// wrong, a true never is. It is safe for concurrent use.
func SurvivesJSON(v any) bool {
	t := reflect.TypeOf(v)
	if t == nil {
		return false
	}
	known, ok := shapes.Load(t)
	if !ok {
		var s shape
		s.plain = s.look(t, nil)
		known, _ = shapes.LoadOrStore(t, s)
	}
	of := known.(shape)
	if !of.plain {
		return false
	}
	if len(of.texts) == 0 {
		return true
	}
	value := reflect.ValueOf(v)
	for _, index := range of.texts {
		text := value
		for _, i := range index {
			text = text.Field(i)
		}
		if !utf8.ValidString(text.String()) { // otherwise it is replaced
			return false
		}
	}
	return true
}

var ownForm = []reflect.Type{
	reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
	reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
}

// look adds the strings in a value of type t, which is at index, and reports whether the
// type is plain.
func (s *shape) look(t reflect.Type, index []int) bool {
	if t == reflect.TypeFor[json.Number]() {
		return false
	}
	for _, form := range ownForm {
		if reflect.PointerTo(t).Implements(form) { // has the methods of t as well
			return false
		}
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	case reflect.String:
		s.texts = append(s.texts, index)
		return true
	case reflect.Struct:
	default:
		return false
	}
	names := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		folded := strings.ToLower(name)
		if !f.IsExported() || f.Anonymous || options != "" && options != "omitempty" || !plainName(name) || names[folded] {
			return false
		}
		names[folded] = true
		if !s.look(f.Type, append(index[:len(index):len(index)], i)) {
			return false
		}
	}
	return true
}

// plainName reports whether a name has only letters, digits and underscores of ASCII:
// encoding/json may not take others as they are.
func plainName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_')
	})
}
