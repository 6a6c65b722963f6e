// Package schedule computes the instants of a recurring event: by a cron expression in a time zone, or at a constant
// interval. It is pure: it reads no clock.
//
// # Cron and the clock's changes
//
// A cron expression refers to the local time of its zone. When the clocks are changed, the hour field decides:
//
//   - Of an expression for certain hours ("30 2 * * *") each time of day is due
//     once a day. One that the clocks show twice is due when they show it first.
//     One that they skip is due as much later as they skip: 02:30 at 03:30.
//   - An expression for every hour ("30 * * * *") is due whenever the clocks show
//     a time that matches: twice in a repeated hour, not in a skipped one.
//
// Days of the month and of the week are "or" if both are given, and "and" if one of them
// begins with "*", as in Vixie's cron and its successors: "0 0 1 * MON" is due on the first
// and on Mondays, "0 0 */2 * MON" on Mondays with an odd date.
package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // every node knows every zone, also in an image without the system's data; costs 450 KB

	"github.com/netresearch/go-cron"
)

// ErrInvalid: a Spec is not valid. The error that wraps it names the expected form.
var ErrInvalid = errors.New("invalid")

// Spec says when, either by Cron or by Every.
type Spec struct {
	// Cron is an expression of five fields (minute, hour, day of the month, month,
	// day of the week), of six with seconds before them, or one of @yearly,
	// @monthly, @weekly, @daily and @hourly. Fields may have lists, ranges, steps and names;
	// L, W and # are for days ("0 9 * * MON#1": the first Monday). A range of hours or of
	// days of the week may go backward: "22-2" is 22, 23, 0, 1 and 2, "FRI-MON" is four days.
	Cron string `json:"cron,omitempty"`
	// Zone is the IANA name of the time zone of Cron: "Europe/Berlin". Default: UTC.
	Zone string `json:"zone,omitempty"`

	// Every is an interval of a second or more, in whole milliseconds. It is due at
	// its multiples since 1970-01-01T00:00Z, plus Offset.
	Every  time.Duration `json:"every,omitempty"`
	Offset time.Duration `json:"offset,omitempty"` // 0 or more, less than Every
}

// String returns the spec as the command line shows it: "0 3 * * * Europe/Berlin",
// "every 1h30m".
func (s Spec) String() string {
	switch {
	case s.Cron != "" && s.Zone != "":
		return s.Cron + " " + s.Zone
	case s.Cron != "":
		return s.Cron + " UTC"
	case s.Offset != 0:
		return fmt.Sprintf("every %s, %s later", s.Every, s.Offset)
	}
	return fmt.Sprintf("every %s", s.Every)
}

// Times is a compiled Spec. It is immutable and safe for concurrent use.
type Times struct {
	every, offset time.Duration // of an interval

	cron   *cron.SpecSchedule // in UTC, which stands for what the clocks show
	zone   *time.Location
	hourly bool // every hour
}

var parser = cron.MustNewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow |
	cron.Descriptor | cron.DowOrDom | cron.Extended).WithMaxSearchYears(searchYears)

// searchYears bounds the search for a next time: a 29th of February that is a Monday comes within 40 years.
const searchYears = 41

// allHours are the bits of the hours.
const allHours = 1<<24 - 1

// Compile checks a Spec. The error wraps ErrInvalid.
func (s Spec) Compile() (*Times, error) {
	bad := func(format string, args ...any) (*Times, error) {
		return nil, fmt.Errorf("schedule: "+format+": %w", append(args, ErrInvalid)...)
	}
	switch {
	case (s.Cron == "") == (s.Every == 0):
		return bad("expected either Cron or Every, found %q and %s", s.Cron, s.Every)
	case s.Cron == "" && s.Zone != "":
		return bad("Zone: expected it with Cron only, found %q", s.Zone)
	case s.Cron == "" && (s.Every < time.Second || s.Every%time.Millisecond != 0):
		return bad("Every: expected 1s or more in whole milliseconds, found %s", s.Every)
	case s.Cron == "" && (s.Offset < 0 || s.Offset >= s.Every || s.Offset%time.Millisecond != 0):
		return bad("Offset: expected less than Every (%s) in whole milliseconds, found %s", s.Every, s.Offset)
	case s.Cron == "":
		return &Times{every: s.Every, offset: s.Offset}, nil
	case s.Offset != 0:
		return bad("Offset: expected it with Every only, found %s", s.Offset)
	case strings.Contains(s.Cron, "TZ="):
		return bad("Cron: expected the time zone in Zone, found it in %q", s.Cron)
	case strings.HasPrefix(s.Cron, "@every"):
		return bad("Cron: expected an interval in Every, found %q", s.Cron)
	case s.Zone == "Local":
		return bad("Zone: expected the name of a time zone, found %q, which differs from one machine to the next", s.Zone)
	}
	zone, err := time.LoadLocation(cmp.Or(s.Zone, "UTC"))
	if err != nil {
		return bad("Zone: expected the IANA name of a time zone, found %q: %w", s.Zone, err)
	}
	if err := checkFields(s.Cron); err != nil {
		return bad("Cron: %q: %w", s.Cron, err)
	}
	parsed, err := parser.Parse(s.Cron)
	if err != nil {
		return bad("Cron: %q: %w", s.Cron, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return bad("Cron: expected five or six fields, found %q", s.Cron)
	}
	spec.Location = time.UTC
	markStars(spec, strings.Fields(s.Cron))
	t := &Times{cron: spec, zone: zone, hourly: spec.Hour&allHours == allHours}
	if t.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return bad("Cron: %q is never due: expected a day that some month has", s.Cron)
	}
	return t, nil
}

// starBit says of a field of days that it restricts no other.
const starBit = 1 << 63

// markStars marks fields of days that begin with a star, also those with a step, which the parser does not.
func markStars(spec *cron.SpecSchedule, fields []string) {
	if len(fields) < 5 {
		return // @daily
	}
	star := func(field string) bool { return field[0] == '*' || field[0] == '?' }
	if days := fields[len(fields)-3]; star(days) {
		spec.Dom |= starBit
	}
	if weekdays := fields[len(fields)-1]; star(weekdays) {
		spec.Dow |= starBit
	}
}

// Next returns the first time that is due after the given one, in UTC; the zero time if there is none within 41 years.
func (t *Times) Next(after time.Time) time.Time {
	if t.cron == nil {
		return t.nextMultiple(after)
	}
	// The search goes from one change of the clocks to the next: in between they run evenly.
	limit := after.AddDate(searchYears, 0, 0)
	for from := after; from.Before(limit); {
		begin, end := t.bounds(from)
		if next := t.nextWithin(after, begin, end, from); !next.IsZero() {
			return next.UTC()
		}
		// What comes is shown by no clock before the time that comes next without changes.
		shown := t.cron.Next(wall(from, offsetAt(from.In(t.zone))).Add(-anyChange))
		if end.IsZero() || shown.IsZero() {
			break
		}
		from = end
		if far := shown.Add(-anyChange); far.After(from) {
			from = far
		}
	}
	return time.Time{}
}

// anyChange is more than a clock was ever set at once, and more than any is ahead of UTC.
const anyChange = 48 * time.Hour

// bounds returns the change of the clocks before a time, or at it, and the next one. Zero is none. Some are no change:
// beyond the table of a zone the years end as well.
func (t *Times) bounds(at time.Time) (begin, end time.Time) {
	begin, end = at.In(t.zone).ZoneBounds()
	// On the last day of a leap year ZoneBounds gives an end that is over. No clock is changed on that day.
	if !end.IsZero() && !end.After(at) {
		end = at.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	}
	return begin, end
}

// nextWithin returns the first time after the given one that is due from a change
// of the clocks to the next; from is in between. A change that is zero is none.
func (t *Times) nextWithin(after, begin, end, from time.Time) time.Time {
	offset := offsetAt(from.In(t.zone))
	first := after
	if first.Before(begin) {
		first = begin.Add(-time.Nanosecond)
	}
	shown := wall(first, offset)
	skipped := time.Time{}
	if former := offsetAt(begin.Add(-time.Nanosecond).In(t.zone)); !begin.IsZero() && !t.hourly {
		switch {
		case former > offset: // what the clocks show again was due before
			if repeated := wall(begin, former).Add(-time.Nanosecond); shown.Before(repeated) {
				shown = repeated
			}
		case former < offset: // what they have skipped is due now
			skipped = t.cron.Next(wall(first, former))
			if !skipped.Before(wall(begin, offset)) {
				skipped = time.Time{}
			} else if !skipped.IsZero() {
				skipped = skipped.Add(-former)
			}
		}
	}
	next := t.cron.Next(shown)
	if !next.IsZero() {
		next = next.Add(-offset)
	}
	if !end.IsZero() && !next.Before(end) {
		next = time.Time{}
	}
	if !skipped.IsZero() && (next.IsZero() || skipped.Before(next)) {
		return skipped
	}
	return next
}

// wall returns the local time of clocks with an offset, as a time in UTC.
func wall(at time.Time, offset time.Duration) time.Time { return at.UTC().Add(offset) }

func offsetAt(at time.Time) time.Duration {
	_, seconds := at.Zone()
	return time.Duration(seconds) * time.Second
}

// nextMultiple returns the next multiple of an interval.
func (t *Times) nextMultiple(after time.Time) time.Time {
	every, offset := t.every.Milliseconds(), t.offset.Milliseconds()
	n := after.UnixMilli() - offset
	if n < 0 {
		n -= every - 1 // round down
	}
	return time.UnixMilli((n/every+1)*every + offset).UTC()
}

// Interval returns the constant interval; 0 for a cron expression.
func (t *Times) Interval() time.Duration { return t.every }
