package store

import "time"

// Time is an instant in microseconds since the Unix epoch, UTC. The zero Time means
// "none"; it is never a real instant. Every store can keep microseconds, so a time is the
// same live and in a replay.
type Time int64

// TimeOf returns t truncated to microseconds. The zero time.Time gives 0.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixMicro())
}

// Time returns t as a time.Time in UTC; 0 gives the zero time.Time.
func (t Time) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(t)).UTC()
}

// Add returns t+d, with d truncated to microseconds.
func (t Time) Add(d time.Duration) Time { return t + Time(d/time.Microsecond) }

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t-u) * time.Microsecond }

// String returns t in RFC 3339 with microseconds, or "never" for 0.
func (t Time) String() string {
	if t == 0 {
		return "never"
	}
	return t.Time().Format("2006-01-02T15:04:05.000000Z")
}
