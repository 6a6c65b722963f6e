package store

import (
	"math"
	"time"
)

// Time is an instant in microseconds since the Unix epoch, UTC. The zero Time means
// "none"; it is never a real instant. Every store can keep microseconds, so a time is the
// same live and in a replay.
//
// The years are those that RFC 3339 can write, 0 to 9999: a time outside of them becomes
// the first or the last instant within. So "never", written as a date, stays a date, and
// no sum of times overflows.
type Time int64

// The first and the last instant.
const (
	earliest Time = -62_167_219_200_000_000 // 0000-01-01T00:00:00Z
	latest   Time = 253_402_300_799_999_999 // 9999-12-31T23:59:59.999999Z
)

// TimeOf returns t truncated to microseconds, within the years of [Time]. The zero
// time.Time gives 0.
func TimeOf(t time.Time) Time {
	switch sec := t.Unix(); {
	case t.IsZero():
		return 0
	case sec < int64(earliest/1e6):
		return earliest
	case sec > int64(latest/1e6):
		return latest
	}
	return Time(t.UnixMicro())
}

// Time returns t as a time.Time in UTC; 0 gives the zero time.Time.
func (t Time) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(t.within())).UTC()
}

func (t Time) within() Time { return min(max(t, earliest), latest) }

// Add returns t+d, with d rounded up to microseconds, within the years of [Time]: what is to last
// for d lasts no less.
func (t Time) Add(d time.Duration) Time {
	whole := Time(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		whole++
	}
	return (t.within() + whole).within()
}

// NotBefore is TimeOf with t rounded up to microseconds: what waits for it waits for t.
func NotBefore(t time.Time) Time {
	if up := TimeOf(t); up != 0 && up < latest && up.Time().Before(t) {
		return up + 1
	}
	return TimeOf(t)
}

// Sub returns t-u; the longest or the shortest Duration if it is longer or shorter than
// that. Use min before you add to it.
func (t Time) Sub(u Time) time.Duration {
	const most = math.MaxInt64 / Time(time.Microsecond)
	switch d := t.within() - u.within(); {
	case d > most:
		return math.MaxInt64
	case d < -most:
		return math.MinInt64
	default:
		return time.Duration(d) * time.Microsecond
	}
}

// String returns t in RFC 3339 with microseconds, or "never" for 0.
func (t Time) String() string {
	if t == 0 {
		return "never"
	}
	return t.Time().Format("2006-01-02T15:04:05.000000Z")
}
