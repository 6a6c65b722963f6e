package stet

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"unicode/utf8"
)

// Workflow code gets what a replay would get: the decoded copy of a result. Of most
// results the copy is known to be equal, so that to decode them when they are new would
// be work for nothing: numbers, booleans, strings, and structs of these, whose encoding
// is encoding/json's own.

// plainShape says how values of a type are looked at.
type plainShape struct {
	plain bool
	texts [][]int // the fields that are strings, as reflect.Value.FieldByIndex takes them
}

var plainShapes sync.Map // plainShape by reflect.Type

// survivesJSON reports whether v, encoded by [JSON] and decoded into a new value of its
// type, is equal to v and shares nothing with it that can be changed. It may say no of a
// value of which that is so.
func survivesJSON(v any) bool {
	t := reflect.TypeOf(v)
	if t == nil {
		return false
	}
	known, ok := plainShapes.Load(t)
	if !ok {
		var s plainShape
		s.plain = s.look(t, nil)
		known, _ = plainShapes.LoadOrStore(t, s)
	}
	shape := known.(plainShape)
	if !shape.plain {
		return false
	}
	if len(shape.texts) == 0 {
		return true
	}
	value := reflect.ValueOf(v)
	for _, index := range shape.texts {
		text := value
		for _, i := range index {
			text = text.Field(i)
		}
		if !utf8.ValidString(text.String()) { // else it is mended
			return false
		}
	}
	return true
}

var ownForm = []reflect.Type{
	reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
	reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
}

// look adds the strings in a value of type t, which stands at index, and reports whether
// the type is plain.
func (s *plainShape) look(t reflect.Type, index []int) bool {
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
// others encoding/json may not take as they are.
func plainName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_')
	})
}
