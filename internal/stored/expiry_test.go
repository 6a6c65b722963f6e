package stored_test

import (
	"testing"
	"time"

	"github.com/stet-run/stet/internal/stored"
)

// TestExpiry: the expiry of a message stands among its headers, in a form that does not
// change, and is taken out of them.
func TestExpiry(t *testing.T) {
	for _, c := range []struct{ headers, with string }{
		{"", `{"stet-expires-us":"2000000"}`},
		{`{"a":"b"}`, `{"a":"b","stet-expires-us":"2000000"}`},
	} {
		with, err := stored.PutExpiry([]byte(c.headers), 2*time.Second)
		if err != nil || string(with) != c.with {
			t.Errorf("of %q: %q, %v", c.headers, with, err)
		}
		if rest, after := stored.SplitExpiry(with); string(rest) != c.headers || after != 2*time.Second {
			t.Errorf("of %q come back %q and %s", with, rest, after)
		}
	}
	for _, headers := range []string{"", `{"a":"stet-expires-us"}`, `{"stet-expires-us":"soon"}`, `"stet-expires-us"`} {
		if rest, after := stored.SplitExpiry([]byte(headers)); string(rest) != headers || after != 0 {
			t.Errorf("of %q come back %q and %s", headers, rest, after)
		}
	}
}
