package clock

import (
	"time"

	"github.com/stet-run/stet"
)

func bad(ctx stet.Context, since time.Time) time.Duration {
	f := time.Now                                       // want `clock: time.Now`
	time.Sleep(time.Second)                             // want `clock: time.Sleep`
	_ = stamp()                                         // want `clock: stamp → time.Now`
	_ = since.Sub(now())                                // want `clock: now → time.Now`
	return f().Sub(time.Unix(0, 0)) + time.Since(since) // want `clock: time.Since`
}

var now = time.Now

func deep(ctx stet.Context) string { return a() } // want `clock: a → b → c → d → … → stamp → time.Now has`

func a() string { return b() }
func b() string { return c() }
func c() string { return d() }
func d() string { return e() }
func e() string { return f() }
func f() string { return stamp() }

func stamp() string { return time.Now().String() }

func good(ctx stet.Context, since time.Time) time.Duration {
	return stet.Now(ctx).Sub(since).Round(time.Second)
}

// Not workflow code, and called by none.
func elsewhere() time.Time { return time.Now() }
