package stored

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/stet-run/stet/store"
)

// TestAssignedValues: their form is pinned; a value without headers is stored as it is; and
// damage is found.
func TestAssignedValues(t *testing.T) {
	if ByHeader != "stet.by" || WhyHeader != "stet.why" {
		t.Error("the names of headers are stored")
	}
	data := WithHeaders([]byte(`{"a":"b"}`), []byte("\x017"))
	if got, want := hex.EncodeToString(data), "05097b2261223a2262227d0137"; got != want {
		t.Errorf("stored as %s, want %s", got, want)
	}
	for _, value := range [][]byte{nil, []byte("\x01[]"), []byte(strings.Repeat("x", 5000))} {
		for _, headers := range []string{"", `{"a":"b"}`} {
			had, back, err := SplitHeaders(WithHeaders([]byte(headers), value))
			if err != nil || string(back) != string(value) || (back == nil) != (value == nil) || string(had) != headers {
				t.Errorf("%.9q with %q comes back as %.9q with %q, %v", value, headers, back, had, err)
			}
		}
	}
	f := &Failure{Code: "error", Message: "no", Headers: []byte("{}")}
	if got, want := hex.EncodeToString(EncodeFailure(f)), "a301656572726f7202626e6f0c427b7d"; got != want {
		t.Errorf("a failure with headers is stored as %s, want %s", got, want)
	}
	for _, damaged := range []string{"\x05", "\x05\x10", "\x05" + strings.Repeat("\xff", 9) + "\x01"} {
		if _, _, err := SplitHeaders([]byte(damaged)); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%q: %v", damaged, err)
		}
	}
}
