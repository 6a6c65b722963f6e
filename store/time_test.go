package store_test

import (
	"math"
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

func TestNotBefore(t *testing.T) {
	whole := time.Date(2026, 1, 2, 3, 4, 5, 1000, time.UTC)
	for _, c := range []struct {
		in   time.Time
		want store.Time
	}{
		{time.Time{}, 0}, {whole, store.TimeOf(whole)}, {whole.Add(1), store.TimeOf(whole) + 1},
		{whole.Add(999), store.TimeOf(whole) + 1}, {time.Unix(-5, 1), store.TimeOf(time.Unix(-5, 0)) + 1},
		{time.Date(20_000, 1, 1, 0, 0, 0, 1, time.UTC), store.TimeOf(time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC))},
	} {
		if got := store.NotBefore(c.in); got != c.want {
			t.Errorf("NotBefore(%s) = %d; want %d", c.in, got, c.want)
		}
	}
}

func TestTimeArithmetic(t *testing.T) {
	t0 := store.Time(1_000_000)
	for _, c := range []struct {
		d    time.Duration
		want store.Time
	}{
		{time.Second, 2_000_000}, {1999 * time.Nanosecond, 1_000_002}, {1, 1_000_001},
		{-1999 * time.Nanosecond, 999_999}, {-time.Second, 0}, {0, t0},
	} {
		if got := t0.Add(c.d); got != c.want {
			t.Errorf("%d + %s = %d; want %d", t0, c.d, got, c.want)
		}
		if got := c.want.Sub(t0); got < c.d || got >= c.d+time.Microsecond {
			t.Errorf("%d - %d = %s; want %s, rounded up", c.want, t0, got, c.d)
		}
	}
	if far := t0 + store.Time(store.MaxDelay); far < t0 {
		t.Errorf("the longest delay overflows: %d", far)
	}
}

// TestTimesStayWithinTheYearsOfADate: one that is too far is at the end, not somewhere else.
func TestTimesStayWithinTheYearsOfADate(t *testing.T) {
	now := store.TimeOf(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	const first, last = "0000-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"
	latest := store.TimeOf(time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC))
	earliest := store.TimeOf(time.Date(-300_000, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		got  store.Time
		want string
	}{
		{store.TimeOf(time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)), last},
		{store.TimeOf(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)), last},
		{latest, last},
		{store.TimeOf(time.Unix(1<<62, 0)), last},
		{store.TimeOf(time.Unix(math.MaxInt64, 0)), last},
		{store.TimeOf(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)), first},
		{store.TimeOf(time.Date(-1, 12, 31, 23, 59, 59, 0, time.UTC)), first},
		{earliest, first},
		{store.TimeOf(time.Unix(-1<<62, 0)), first},
		{latest.Add(1000), last},
		{latest.Add(math.MaxInt64), last},
		{earliest.Add(math.MinInt64), first},
		{now.Add(math.MaxInt64), "2318-04-14T02:51:21.854776Z"},
		{store.Time(math.MaxInt64), last}, // of another program
		{store.Time(math.MinInt64), first},
		{store.Time(math.MaxInt64).Add(math.MaxInt64), last},
	} {
		if c.got.String() != c.want {
			t.Errorf("expected %s, found %s", c.want, c.got)
		}
		if back, err := time.Parse(time.RFC3339Nano, c.got.String()); err != nil || store.TimeOf(back) != c.got.Add(0) {
			t.Errorf("%s comes back as %s, %v", c.got, back, err)
		}
		if _, err := c.got.Time().MarshalJSON(); err != nil {
			t.Errorf("%s: %v", c.got, err)
		}
	}
	for _, c := range []struct {
		from, to store.Time
		want     time.Duration
	}{
		{now, latest, math.MaxInt64},
		{latest, now, math.MinInt64},
		{now, store.Time(math.MaxInt64), math.MaxInt64},
		{store.Time(math.MinInt64), store.Time(math.MaxInt64), math.MaxInt64},
		{store.Time(math.MaxInt64), store.Time(math.MinInt64), math.MinInt64},
		{now, now.Add(math.MaxInt64), math.MaxInt64},
	} {
		if got := c.to.Sub(c.from); got != c.want {
			t.Errorf("from %s to %s: expected %d, found %d", c.from, c.to, c.want, got)
		}
	}
}
