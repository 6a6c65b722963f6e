package store_test

import (
	"testing"
	"time"

	"github.com/stet-run/stet/store"
)

func TestTimeKeepsMicroseconds(t *testing.T) {
	zone := time.FixedZone("east", 3600)
	for _, c := range []struct {
		in   time.Time
		want store.Time
		text string
	}{
		{time.Time{}, 0, "never"},
		{time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC), 1767323045678901, "2026-01-02T03:04:05.678901Z"},
		{time.Date(2026, 1, 2, 4, 4, 5, 0, zone), 1767323045000000, "2026-01-02T03:04:05.000000Z"},
		{time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC), -1000000, "1969-12-31T23:59:59.000000Z"},
	} {
		got := store.TimeOf(c.in)
		if got != c.want || got.String() != c.text {
			t.Errorf("TimeOf(%s) = %d, %q; want %d, %q", c.in, got, got, c.want, c.text)
		}
		if back := got.Time(); !back.Equal(c.in.Truncate(time.Microsecond)) || back.Location() != time.UTC {
			t.Errorf("%s came back as %s", c.in, back)
		}
	}
}

func TestTimeArithmetic(t *testing.T) {
	t0 := store.Time(1_000_000)
	for _, c := range []struct {
		d    time.Duration
		want store.Time
	}{{time.Second, 2_000_000}, {1999 * time.Nanosecond, 1_000_001}, {-time.Second, 0}, {0, t0}} {
		if got := t0.Add(c.d); got != c.want {
			t.Errorf("%d + %s = %d; want %d", t0, c.d, got, c.want)
		}
		if got := c.want.Sub(t0); got != c.d.Truncate(time.Microsecond) {
			t.Errorf("%d - %d = %s; want %s", c.want, t0, got, c.d)
		}
	}
	if far := t0 + store.Time(store.MaxDelay); far < t0 {
		t.Errorf("the longest delay overflows: %d", far)
	}
}
