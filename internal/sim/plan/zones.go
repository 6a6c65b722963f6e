package plan

import (
	"fmt"
	"time"
)

// change is a moment at which the clocks of a zone are changed.
type change struct {
	zone string
	at   time.Time // before it is Hour at the clocks
	hour int       // that is skipped or shown twice
}

var changes = []change{
	{"Europe/Berlin", time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), 2},
	{"Europe/Berlin", time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC), 2},
	{"America/New_York", time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC), 2},
	{"America/New_York", time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC), 1},
	{"Australia/Lord_Howe", time.Date(2026, 4, 4, 15, 0, 0, 0, time.UTC), 1}, // by half an hour
	{"Australia/Lord_Howe", time.Date(2026, 10, 3, 15, 30, 0, 0, time.UTC), 2},
}

// zone adds a schedule by cron to some worlds, in the middle of which the clocks of its zone are changed.
func (g *generator) zone() {
	if g.chance(0.92) {
		return
	}
	c := changes[g.IntN(len(changes))]
	g.Begin = c.at.Add(-g.Length / 2).Truncate(time.Millisecond)
	s := Schedule{
		Name: "zoned", At: g.upTo(g.Length / 4), Zone: c.zone, Every: pick(g, 2*time.Second, 5*time.Second),
		Overlap: pick(g, "skip", "allow"), CatchUp: pick(g, 0, time.Hour),
	}
	hours := pick(g, "*", fmt.Sprint(c.hour), fmt.Sprintf("%d,%d", c.hour, c.hour+1), fmt.Sprint(c.hour-1))
	s.Cron = fmt.Sprintf("*/%d * %s * * *", int(s.Every.Seconds()), hours)
	g.name, g.left, g.unlimited = 0, 1+g.IntN(2), true
	s.Program = g.program(2, false)
	g.unlimited = false
	g.Schedules = append(g.Schedules, s)
}
