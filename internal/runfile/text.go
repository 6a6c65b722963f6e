package runfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/store"
)

// value is a stored value: {"json": …} or {"base64": "…"}. A nil *value is no value,
// which is not the same as an empty one.
type value struct{ data []byte }

// jsonFormat is the format byte of values that the default codec writes.
const jsonFormat = 1

type valueForm struct {
	JSON   json.RawMessage `json:"json,omitempty"`
	Base64 *[]byte         `json:"base64,omitempty"`
}

func valueOf(data []byte) *value {
	if data == nil {
		return nil
	}
	return &value{data}
}

func (v *value) bytes() []byte {
	if v == nil {
		return nil
	}
	return v.data
}

// MarshalJSON implements json.Marshaler.
func (v *value) MarshalJSON() ([]byte, error) {
	form := valueForm{Base64: &v.data}
	if len(v.data) > 1 && v.data[0] == jsonFormat && utf8.Valid(v.data) {
		if text := compact(v.data[1:]); bytes.Equal(text, v.data[1:]) {
			form = valueForm{JSON: text}
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // would change the value
	err := encoder.Encode(form)
	return out.Bytes(), err
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *value) UnmarshalJSON(data []byte) error {
	var form valueForm
	if err := json.Unmarshal(data, &form); err != nil {
		return err
	}
	switch {
	case form.JSON != nil && form.Base64 == nil:
		v.data = append([]byte{jsonFormat}, compact(form.JSON)...)
	case form.Base64 != nil && form.JSON == nil:
		v.data = *form.Base64
	default:
		return errors.New(`value: expected either "json" or "base64"`)
	}
	return nil
}

// compact returns JSON without spaces between its parts, or nil if data is not JSON.
func compact(text []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, text) != nil {
		return nil
	}
	return out.Bytes()
}

// instant is a store.Time in RFC 3339.
type instant store.Time

// MarshalText implements encoding.TextMarshaler.
func (i instant) MarshalText() ([]byte, error) {
	return []byte(store.Time(i).Time().Format(time.RFC3339Nano)), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *instant) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.RFC3339Nano, string(text))
	*i = instant(store.TimeOf(t))
	return err
}

// loc is an encoded location, written in its text form.
type loc string

// MarshalText implements encoding.TextMarshaler.
func (l loc) MarshalText() ([]byte, error) { return []byte(location.Loc(l).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *loc) UnmarshalText(text []byte) error {
	parsed, err := location.Parse(string(text))
	*l = loc(parsed)
	return err
}

// The numbers below are written as their names, or in digits if this version has no
// name for them.
type (
	kind      store.Kind
	state     store.EntryState
	itemKind  store.ItemKind
	itemState store.ItemState
)

func (k kind) MarshalText() ([]byte, error)       { return named(store.Kind(k)), nil }
func (s state) MarshalText() ([]byte, error)      { return named(store.EntryState(s)), nil }
func (k itemKind) MarshalText() ([]byte, error)   { return named(store.ItemKind(k)), nil }
func (s itemState) MarshalText() ([]byte, error)  { return named(itemStateName(s)), nil }
func (k *kind) UnmarshalText(text []byte) error   { return number[store.Kind](k, text) }
func (s *state) UnmarshalText(text []byte) error  { return number[store.EntryState](s, text) }
func (k *itemKind) UnmarshalText(t []byte) error  { return number[store.ItemKind](k, t) }
func (s *itemState) UnmarshalText(t []byte) error { return number[itemStateName](s, t) }

// itemStateName gives item states the names that the file has for them.
type itemStateName store.ItemState

func (s itemStateName) String() string {
	switch store.ItemState(s) {
	case store.New:
		return "new"
	case store.Seen:
		return "seen"
	case store.Consumed:
		return "consumed"
	}
	return ""
}

type numbered interface {
	~uint8
	fmt.Stringer
}

// named returns the name of n, or its digits.
func named[N numbered](n N) []byte {
	if name := n.String(); isName(name) {
		return []byte(name)
	}
	return strconv.AppendUint(nil, uint64(n), 10)
}

// isName reports whether a String method returned a word and not a number.
func isName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && c != '-' && c != '_' && c != ' ' {
			return false
		}
	}
	return s != ""
}

// number is the inverse of named.
func number[N numbered, T ~uint8](to *T, text []byte) error {
	for n := range 256 {
		if bytes.Equal(named(N(n)), text) {
			*to = T(n)
			return nil
		}
	}
	return fmt.Errorf("expected a name that this version knows, found %q", text)
}
