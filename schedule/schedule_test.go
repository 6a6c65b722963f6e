package schedule_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/schedule"
)

func compile(t *testing.T, s schedule.Spec) *schedule.Times {
	t.Helper()
	times, err := s.Compile()
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return times
}

// between returns the times that are due after from and not after to.
func between(times *schedule.Times, from, to time.Time) []time.Time {
	var due []time.Time
	for at := times.Next(from); !at.IsZero() && !at.After(to); at = times.Next(at) {
		due = append(due, at)
	}
	return due
}

func TestChangesOfTheClocks(t *testing.T) {
	for _, c := range []struct{ name, cron, zone, day, want string }{
		{"skipped", "30 2 * * *", "Europe/Berlin", "2026-03-29", "01:30"},
		{"skipped, each", "*/20 2 * * *", "Europe/Berlin", "2026-03-29", "01:00 01:20 01:40"},
		{"skipped and shown", "0 2,3 * * *", "Europe/Berlin", "2026-03-29", "01:00"},
		{"skipped and shown later", "15 2,3 * * *", "Europe/Berlin", "2026-03-29", "01:15"},
		{"skipped, of every hour", "30 * * * *", "Europe/Berlin", "2026-03-29", hours(0, 24, 30)},
		{"repeated", "30 2 * * *", "Europe/Berlin", "2026-10-25", "00:30"},
		{"repeated, each", "*/20 2 * * *", "Europe/Berlin", "2026-10-25", "00:00 00:20 00:40"},
		{"repeated, then on", "30 2,3 * * *", "Europe/Berlin", "2026-10-25", "00:30 02:30"},
		{"repeated, of every hour", "30 * * * *", "Europe/Berlin", "2026-10-25", hours(0, 24, 30)},
		{"repeated, of every second hour", "0 */2 * * *", "Europe/Berlin", "2026-10-25",
			"00:00 03:00 05:00 07:00 09:00 11:00 13:00 15:00 17:00 19:00 21:00 23:00"},
		{"half an hour skipped", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03", "15:45"},
		{"half an hour skipped, not of it", "45 2 * * *", "Australia/Lord_Howe", "2026-10-03", "15:45"},
		{"half an hour repeated", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04", "14:45"},
		{"half an hour repeated, of every hour",
			"45 * * * *", "Australia/Lord_Howe", "2026-04-04",
			"00:45 01:45 02:45 03:45 04:45 05:45 06:45 07:45 08:45 09:45 10:45 11:45 " +
				"12:45 13:45 14:45 15:15 16:15 17:15 18:15 19:15 20:15 21:15 22:15 23:15"},
		{"midnight skipped", "0 0 * * *", "America/Sao_Paulo", "2018-11-04", "03:00"},
		{"midnight repeated", "30 23 * * *", "America/Sao_Paulo", "2018-02-18", "01:30"},
		{"two hours skipped", "0 2 * * *", "Antarctica/Troll", "2026-03-29", "02:00"},
		{"with seconds", "5 0 12 * * *", "America/New_York", "2026-11-21", "17:00:05"},
		{"UTC", "@daily", "", "2026-11-21", "00:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			times := compile(t, schedule.Spec{Cron: c.cron, Zone: c.zone})
			day, err := time.Parse(time.DateOnly, c.day)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, at := range between(times, day.Add(-1), day.Add(24*time.Hour-1)) {
				got = append(got, strings.TrimSuffix(at.Format("15:04:05"), ":00"))
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%s in %s on %s (UTC)\n got %s\nwant %s", c.cron, c.zone, c.day, s, c.want)
			}
		})
	}
}

func hours(from, to, minute int) string {
	var list []string
	for h := from; h < to; h++ {
		list = append(list, fmt.Sprintf("%02d:%02d", h, minute))
	}
	return strings.Join(list, " ")
}

// rule is an expression that a dumb reader understands as well.
type rule struct {
	minutes, hours, days, weekdays map[int]bool // nil: all
}

func (r rule) matches(shown time.Time) bool {
	in := func(set map[int]bool, n int) bool { return set == nil || set[n] }
	day := in(r.days, shown.Day()) && in(r.weekdays, int(shown.Weekday()))
	if r.days != nil && r.weekdays != nil {
		day = r.days[shown.Day()] || r.weekdays[int(shown.Weekday())]
	}
	return in(r.minutes, shown.Minute()) && in(r.hours, shown.Hour()) && day
}

func field(rng *rand.Rand, low, high int) (string, map[int]bool) {
	if rng.IntN(3) == 0 {
		return "*", nil
	}
	set := map[int]bool{}
	var list []string
	for range 1 + rng.IntN(3) {
		n := low + rng.IntN(high-low+1)
		set[n] = true
		list = append(list, strconv.Itoa(n))
	}
	return strings.Join(list, ","), set
}

// TestAYearInSixZones compares with a reader that looks at every minute of the
// year, for random expressions, half of them for the hours in which clocks change.
func TestAYearInSixZones(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata",
		"Africa/Cairo", "Pacific/Chatham", "America/Santiago", "Antarctica/Troll"} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && zone != "Europe/Berlin" && zone != "Australia/Lord_Howe" {
				t.Skip("not in -short: two zones are looked at there")
			}
			loc, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			begin, end := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
			for seed := range uint64(4) {
				rng := rand.New(rand.NewPCG(seed, 7))
				var r rule
				var minutes, hourField, days, weekdays string
				minutes, r.minutes = field(rng, 0, 59)
				hourField, r.hours = field(rng, 0, 23)
				if seed%2 == 0 {
					hourField, r.hours = field(rng, 0, 3)
				}
				days, r.days = field(rng, 1, 31)
				weekdays, r.weekdays = field(rng, 0, 6)
				spec := schedule.Spec{Cron: fmt.Sprintf("%s %s %s * %s", minutes, hourField, days, weekdays), Zone: zone}
				got, want := between(compile(t, spec), begin, end), slowly(r, loc, begin, end)
				if len(got) != len(want) {
					t.Errorf("%s: expected %d times in the year, got %d", spec, len(want), len(got))
				}
				for i := range min(len(got), len(want)) {
					if !got[i].Equal(want[i]) {
						t.Fatalf("%s: time %d: expected %s, got %s", spec, i, want[i].In(loc), got[i].In(loc))
					}
				}
			}
		})
	}
}

// slowly looks at every minute.
func slowly(r rule, loc *time.Location, begin, end time.Time) []time.Time {
	var due []time.Time
	shown := map[int64]bool{} // near changes of the clocks
	var later []time.Time     // what was skipped
	lastShown := begin.Add(-48 * time.Hour).In(loc)
	for at := begin.Add(-48 * time.Hour); !at.After(end); at = at.Add(time.Minute) {
		local := at.In(loc)
		// Times that the clocks have skipped since the minute before are due later by as much as they skipped.
		if step := wallOf(local).Sub(wallOf(lastShown)); step > time.Minute && r.hours != nil {
			for m := wallOf(lastShown).Add(time.Minute); m.Before(wallOf(local)); m = m.Add(time.Minute) {
				if r.matches(m) {
					later = append(later, at.Add(m.Sub(wallOf(lastShown))-time.Minute))
				}
			}
		}
		lastShown = local
		clock := wallOf(local)
		match := r.matches(clock)
		if match && r.hours != nil {
			match = !shown[clock.Unix()]
			shown[clock.Unix()] = true
		}
		for i, skipped := range later {
			if skipped.Equal(at) {
				match = true
				later = append(later[:i], later[i+1:]...)
				break
			}
		}
		if match && at.After(begin) {
			due = append(due, at)
		}
	}
	return due
}

// wallOf returns the local time of a clock, as a time in UTC.
func wallOf(local time.Time) time.Time {
	return time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
}

func TestIntervals(t *testing.T) {
	for _, c := range []struct {
		every, offset time.Duration
		after, want   string
	}{
		{time.Hour, 0, "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z"},
		{time.Hour, 0, "2026-11-21T11:59:59.999Z", "2026-11-21T12:00:00Z"},
		{time.Hour, 5 * time.Minute, "2026-11-21T12:00:00Z", "2026-11-21T12:05:00Z"},
		{7 * 24 * time.Hour, 0, "1970-01-01T00:00:00Z", "1970-01-08T00:00:00Z"},
		{time.Hour, time.Minute, "1969-12-31T23:00:59Z", "1969-12-31T23:01:00Z"},
		{1500 * time.Millisecond, 0, "1970-01-01T00:00:02Z", "1970-01-01T00:00:03Z"},
		{time.Hour, 0, "1969-12-31T23:00:00Z", "1970-01-01T00:00:00Z"},
	} {
		after, err := time.Parse(time.RFC3339Nano, c.after)
		if err != nil {
			t.Fatal(err)
		}
		if got := compile(t, schedule.Spec{Every: c.every,
			Offset: c.offset}).Next(after).Format(time.RFC3339Nano); got != c.want {
			t.Errorf("every %s + %s after %s: expected %s, got %s", c.every, c.offset, c.after, c.want, got)
		}
	}
}

func TestDaysOfMonthAndWeek(t *testing.T) {
	from := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC) // a Saturday
	for cron, want := range map[string]string{
		"0 0 1 * MON":      "2026-11-23", // or
		"0 0 */2 * MON":    "2026-11-23", // and, as one begins with a star
		"0 0 */2 * TUE":    "2026-12-01",
		"0 0 0 */2 * TUE":  "2026-12-01",
		"0 0 2 * */6":      "2027-01-02", // a Saturday
		"0 0 ?/7 * SUN":    "2026-11-22",
		"0 0 1-31/2 * TUE": "2026-11-23",
		"0 0 */2 * MON#1":  "2026-12-07",
		"0 0 * * MON":      "2026-11-23",
		"0 0 L * *":        "2026-11-30",
		"0 0 * * FRI#1":    "2026-12-04",
		"0 0 29 2 *":       "2028-02-29",
		"0 0 15W * *":      "2026-12-15",
		"0 0 1 jan-mar *":  "2027-01-01",
	} {
		if got := compile(t, schedule.Spec{Cron: cron}).Next(from).Format(time.DateOnly); got != want {
			t.Errorf("%s: expected %s, got %s", cron, want, got)
		}
	}
}

func TestBadSpecs(t *testing.T) {
	for _, c := range []struct {
		spec schedule.Spec
		want string
	}{
		{schedule.Spec{}, "either Cron or Every"},
		{schedule.Spec{Cron: "* * * * *", Every: time.Hour}, "either Cron or Every"},
		{schedule.Spec{Cron: "* * *"}, "Cron: "},
		{schedule.Spec{Cron: "60 * * * *"}, "Cron: "},
		{schedule.Spec{Cron: "@every 5s"}, "in Every"},
		{schedule.Spec{Cron: "@reboot"}, "Cron: "},
		{schedule.Spec{Cron: "50-10 * * * *"}, "range of minutes"},
		{schedule.Spec{Cron: "50-10/5 * * * *"}, "range of minutes"},
		{schedule.Spec{Cron: "50-10 * * * * *"}, "range of seconds"},
		{schedule.Spec{Cron: "0 0 31-1 * *"}, "range of days of the month"},
		{schedule.Spec{Cron: "0 0 1 NOV-feb *"}, "range of months"},
		{schedule.Spec{Cron: "0 0 1 12-2 *"}, "range of months"},
		{schedule.Spec{Cron: "0,,30 * * * *"}, "without empty items"},
		{schedule.Spec{Cron: ",0 * * * *"}, "without empty items"},
		{schedule.Spec{Cron: "0 0 * * MON,"}, "without empty items"},
		{schedule.Spec{Cron: "TZ=UTC * * * * *"}, "in Zone"},
		{schedule.Spec{Cron: "CRON_TZ=UTC * * * * *"}, "in Zone"},
		{schedule.Spec{Cron: "0 0 30 2 *"}, "never due"},
		{schedule.Spec{Cron: "0 0 30 2 *", Zone: "Europe/Berlin"}, "never due"},
		{schedule.Spec{Cron: "0 0 31 4 *", Zone: "America/New_York"}, "never due"},
		{schedule.Spec{Cron: "0 0 31W 2 *", Zone: "Australia/Sydney"}, "never due"},
		{schedule.Spec{Cron: "59 59 23 31 2,4,6,9,11 *", Zone: "Australia/Lord_Howe"}, "never due"},
		{schedule.Spec{Cron: "* * * * *", Zone: "Mars/Olympus"}, "Zone: "},
		{schedule.Spec{Cron: "* * * * *", Zone: "Local"}, "Zone: "},
		{schedule.Spec{Cron: "* * * * *", Offset: time.Second}, "Offset: "},
		{schedule.Spec{Every: time.Hour, Zone: "UTC"}, "Zone: "},
		{schedule.Spec{Every: time.Millisecond}, "Every: "},
		{schedule.Spec{Every: -time.Hour}, "Every: "},
		{schedule.Spec{Every: time.Second + 1}, "Every: "},
		{schedule.Spec{Every: time.Hour, Offset: time.Hour}, "Offset: "},
		{schedule.Spec{Every: time.Hour, Offset: -1}, "Offset: "},
	} {
		if _, err := c.spec.Compile(); !errors.Is(err, schedule.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: expected an error with %q, got %v", c.spec, c.want, err)
		}
	}
}

// TestBackwardRanges: hours go over midnight, days of the week over the week's end.
func TestBackwardRanges(t *testing.T) {
	monday := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for cron, want := range map[string]string{
		"0 22-2 * * *":    "Mon 00 Mon 01 Mon 02 Mon 22 Mon 23",
		"0 0 * * FRI-MON": "Mon 00",
		"0 22-2/2 * * *":  "Mon 00 Mon 02 Mon 22",
	} {
		var got []string
		for _, at := range between(compile(t, schedule.Spec{Cron: cron}), monday.Add(-1), monday.Add(24*time.Hour-1)) {
			got = append(got, at.Format("Mon 15"))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: expected %s, found %s", cron, want, s)
		}
	}
	week := between(compile(t, schedule.Spec{Cron: "0 0 * * fri-mon"}), monday.Add(-1), monday.AddDate(0, 0, 7).Add(-1))
	if len(week) != 4 {
		t.Errorf("FRI-MON: expected four days of a week, found %v", week)
	}
}

// zones have clocks that are changed by each kind of rule that is in force: north and south, by an hour, by half an
// hour, by two, at midnight, on Fridays and Sundays, before their own midnight; and clocks that are not changed.
var zones = []string{
	"Africa/Cairo", "Africa/Casablanca", "America/Asuncion", "America/Havana", "America/Los_Angeles", "America/New_York",
	"America/Nuuk", "America/Santiago", "America/Sao_Paulo", "America/Scoresbysund", "America/St_Johns",
	"Antarctica/Troll", "Asia/Beirut", "Asia/Gaza", "Asia/Jerusalem", "Asia/Kolkata", "Asia/Tokyo", "Atlantic/Azores",
	"Australia/Lord_Howe", "Australia/Sydney", "Europe/Berlin", "Europe/Chisinau", "Europe/Dublin", "Europe/London",
	"Pacific/Apia", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Easter", "Pacific/Kiritimati", "Pacific/Norfolk", "UTC",
}

// TestTheLastDaysOfLeapYears: beyond the table of a zone they once had no end.
func TestTheLastDaysOfLeapYears(t *testing.T) {
	for _, zone := range zones {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		daily := compile(t, schedule.Spec{Cron: "30 7 * * *", Zone: zone})
		hourly := compile(t, schedule.Spec{Cron: "15 * * * *", Zone: zone})
		for _, year := range []int{2040, 2044, 2096, 2104, 2400} {
			// Each hour of the days around the year's end, by a clock that nobody changes on them.
			for at := time.Date(year, 12, 29, 0, 0, 0, 0, loc); at.Day() != 3; at = at.Add(time.Hour) {
				want := time.Date(at.Year(), at.Month(), at.Day(), 7, 30, 0, 0, loc)
				if at.Hour() > 7 {
					want = want.AddDate(0, 0, 1)
				}
				if got := daily.Next(at); !got.Equal(want) {
					t.Fatalf("%s: after %s: expected %s, found %s", zone, at, want, got.In(loc))
				}
				if got, want := hourly.Next(at), at.Add(15*time.Minute); !got.Equal(want) {
					t.Fatalf("%s: after %s: expected %s, found %s", zone, at, want, got.In(loc))
				}
			}
		}
	}
}

// TestRareDates: the search is bounded by years, and leaves out those in which nothing is due.
func TestRareDates(t *testing.T) {
	for _, zone := range zones {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		leap := compile(t, schedule.Spec{Cron: "30 12 29 2 *", Zone: zone})
		monday := compile(t, schedule.Spec{Cron: "30 12 */28 2 MON#5", Zone: zone}) // a 29th of February
		for _, c := range []struct {
			times    *schedule.Times
			from, to int
		}{{leap, 2024, 2028}, {leap, 2040, 2044}, {leap, 2096, 2104}, {monday, 2024, 2044}, {monday, 2072, 2112}} {
			want := time.Date(c.to, 2, 29, 12, 30, 0, 0, loc)
			if got := c.times.Next(time.Date(c.from, 2, 29, 12, 30, 0, 0, loc)); !got.Equal(want) {
				t.Errorf("%s: after the 29th of February %d: expected %s, found %s", zone, c.from, want, got.In(loc))
			}
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"30 2 * * *", "*/15 0-6 1,15 JAN-MAR MON#2", "@hourly", "0 0 29 2 MON", "L",
		"* * * * * *"} {
		f.Add(s, "Europe/Berlin")
	}
	f.Fuzz(func(t *testing.T, cron, zone string) {
		times, err := schedule.Spec{Cron: cron, Zone: zone}.Compile()
		if err != nil {
			if !errors.Is(err, schedule.ErrInvalid) {
				t.Errorf("expected ErrInvalid, got %v", err)
			}
			return
		}
		at := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
		for range 5 {
			next := times.Next(at)
			if next.IsZero() {
				return
			}
			if !next.After(at) {
				t.Fatalf("%q in %q: after %s comes %s", cron, zone, at, next)
			}
			at = next
		}
	})
}
