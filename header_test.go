package stet

import (
	"encoding/json"
	"maps"
	"testing"
)

// FuzzPlainHeaders: what is decoded in a short way is what encoding/json makes of it.
func FuzzPlainHeaders(f *testing.F) {
	for _, text := range []string{
		`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tenant":"a"}`, `{"a":""}`, `{"":"b"}`,
		`{"a":"b\\"c"}`, `{"a":"b","a":"c"}`, `{"a":1}`, `{"a":"b"},"}`, `{"a":"b","c"}`, `{"a":"b" }`, `{}`, `{""}`, `{"}`,
		`{"a":"\u003c"}`, `{"a":"x","y":"z"}`, "{\"a\":\"\x01\"}", "{\"a\":\"\xff\"}", `{"a":":"}`, `{"a":"b","":"":""}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := plainHeaders(data)
		if !ok {
			return
		}
		var want Headers
		if err := json.Unmarshal(data, &want); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: got %q, want %q, %v", data, got, want, err)
		}
	})
}

// TestHeadersTakeTheShortWay, as they are written.
func TestHeadersTakeTheShortWay(t *testing.T) {
	for _, h := range []Headers{{"tenant": "a"}, {"traceparent": "00-1-2-01", "tracestate": "x=1,y=2", "user": "alice"}} {
		data, err := h.encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := plainHeaders(data); !ok || !maps.Equal(got, h) {
			t.Errorf("%s: got %v, %v", data, got, ok)
		}
	}
}
