package stored_test

import (
	"testing"

	"github.com/stet-run/stet/internal/stored"
)

func TestTraceID(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	for headers, want := range map[string]string{
		`{"tenant":"a","traceparent":"00-` + id + `-b7ad6b7169203331-01"}`: id,
		`{"traceparent":"00-` + id + `"}`:                                  "",
		`{"traceparent":"00-` + id[:31] + `x-b7ad6b7169203331-01"}`:        "",
		`{"traceparent":"garbage"}`:                                        "",
		`{"traceparent":"00_` + id + `-b7ad6b7169203331-01"}`:              "",
		`{"tenant":"traceparent"}`:                                         "",
		``:                                                                 "",
	} {
		if got := stored.TraceID([]byte(headers)); got != want {
			t.Errorf("trace of %s: got %q, want %q", headers, got, want)
		}
	}
}
