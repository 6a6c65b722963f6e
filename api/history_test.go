package api

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// sameJSON compares AppendJSON with encoding/json.
func sameJSON(t *testing.T, h *History) {
	t.Helper()
	want, wantErr := appendValue(nil, h)
	found, err := h.AppendJSON([]byte("before"))
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%v, encoding/json: %v", err, wantErr)
	}
	if err == nil && string(found) != "before"+string(want) {
		t.Errorf("expected\n%s\nfound\n%s", want, found)
	}
}

// TestHistoryIsAsByEncodingJSON: with each field of an entry alone, and with all of them, so that
// no later field can be forgotten.
func TestHistoryIsAsByEncodingJSON(t *testing.T) {
	sameJSON(t, &History{})
	sameJSON(t, &History{Entries: []*Entry{}, Next: "a/b"})
	sameJSON(t, &History{Entries: []*Entry{nil, {}, {}}})
	all := &Entry{}
	fields := reflect.TypeFor[Entry]()
	for i := range fields.NumField() {
		one := &Entry{}
		for _, e := range []*Entry{one, all} {
			switch f := reflect.ValueOf(e).Elem().Field(i); f.Interface().(type) {
			case time.Time:
				f.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 678_900_000+i, time.UTC)))
			case json.RawMessage:
				f.SetBytes([]byte(`{"a": "<b>"}`))
			default:
				switch f.Kind() {
				case reflect.String:
					f.SetString("a <text>")
				case reflect.Int, reflect.Int64:
					f.SetInt(int64(i) + 5)
				case reflect.Bool:
					f.SetBool(true)
				case reflect.Pointer:
					f.Set(reflect.New(f.Type().Elem()))
				case reflect.Slice:
					f.Set(reflect.MakeSlice(f.Type(), 2, 2))
				default:
					t.Fatalf("field %s is a %s", fields.Field(i).Name, f.Kind())
				}
			}
		}
		if reflect.ValueOf(one).Elem().Field(i).IsZero() {
			t.Errorf("field %s was not set", fields.Field(i).Name)
		}
		sameJSON(t, &History{Entries: []*Entry{one}})
	}
	sameJSON(t, &History{Entries: []*Entry{all, all}, Next: "x"})
}

// FuzzHistory: texts, numbers and times of any kind, likewise.
func FuzzHistory(f *testing.F) {
	f.Add("poll/~3/fetch", "step", int64(7), int64(1_800_000_000), int64(5), 0, true)
	f.Add("a\"b\\c\u2028é<>&\x00\x7f\xff", "", int64(-1), int64(-1<<62), int64(0), 3600, false)
	f.Add("", "\n", int64(0), int64(253402300800), int64(999_999_999), -7, true)
	f.Fuzz(func(t *testing.T, text, kind string, n, seconds, nanos int64, zone int, yes bool) {
		at := time.Unix(seconds, nanos).UTC()
		if zone %= 86400; zone != 0 {
			at = at.In(time.FixedZone(kind, zone))
		}
		e := &Entry{Location: text, Kind: kind, Number: n, Attempts: int(n), Started: at, Ended: at, Run: text, Undone: yes,
			Size: int(n), Event: kind}
		sameJSON(t, &History{Entries: []*Entry{e}, Next: text})
	})
}
