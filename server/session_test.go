package server

import (
	"testing"
	"time"
)

// FuzzSession: a cookie that is not ours is refused, and one of ours says what it was made of.
func FuzzSession(f *testing.F) {
	f.Add(sealSession("stet_x", time.Unix(1_800_000_000, 0)))
	f.Add("")
	f.Add("..")
	f.Add("eA.1.x")
	f.Fuzz(func(t *testing.T, cookie string) {
		token, until, err := openSession(cookie)
		if err == nil && sealSession(token, until) != cookie {
			t.Fatalf("%q is taken for a session of %q until %s", cookie, token, until)
		}
	})
}
