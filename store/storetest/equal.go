package storetest

import (
	"bytes"
	"reflect"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// equal compares as a caller sees it: an empty list is like none, but an empty value is not like no value.
var equal = cmp.Options{
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() != reflect.TypeFor[[]byte]() }, cmpopts.EquateEmpty()),
	cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }),
}

// difference says in what got is not want, or "".
func difference(want, got any) string {
	if same(reflect.ValueOf(&want).Elem(), reflect.ValueOf(&got).Elem()) {
		return "" // go-cmp takes a hundred times as long to say so
	}
	return cmp.Diff(want, got, equal)
}

// same is equal for values without cycles. False may be wrong.
func same(a, b reflect.Value) bool {
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return false
	}
	switch a.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Interface, reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return same(a.Elem(), b.Elem())
	case reflect.Slice:
		if x, ok := a.Interface().([]byte); ok {
			return bytes.Equal(x, b.Bytes()) && a.IsNil() == b.IsNil()
		}
		return a.Len() == b.Len() && sameElements(a, b)
	case reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		for _, key := range a.MapKeys() {
			if !same(a.MapIndex(key), b.MapIndex(key)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

func sameElements(a, b reflect.Value) bool {
	for i := range a.Len() {
		if !same(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}
