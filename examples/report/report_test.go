package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/stettest"
)

// TestAYear makes a report each morning of a year in which the clocks change twice,
// but for one.
func TestAYear(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	var days []time.Time
	offsets := map[int]int{}
	r := &reporter{func(_ context.Context, day time.Time) error {
		if len(days) == 100 {
			days = append(days, day)
			return stet.Permanent(errors.New("no numbers today"))
		}
		days = append(days, day)
		_, offset := day.Zone()
		offsets[offset]++
		return nil
	}}
	report := stet.Define("report", r.report, stet.Retention{Succeeded: 24 * time.Hour})
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{report}}, func(t *testing.T, env *stettest.Env) {
		p := Plan{Zone: "Europe/Berlin", Hour: 6}
		if err := report.Schedule(t.Context(), env.Engine, "morning", p, p.schedule()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(365 * 24 * time.Hour) // virtual
		info, err := env.Engine.Schedules().Info(t.Context(), "morning")
		if err != nil || info.Started != 365 || info.Skipped != 0 {
			t.Errorf("%+v, %v", info, err)
		}
	})
	for i, day := range days {
		if h := day.In(zone).Hour(); h != 6 {
			t.Errorf("a report at %s", day)
		}
		if i > 0 && day.In(zone).YearDay() == days[i-1].In(zone).YearDay() {
			t.Errorf("two reports on %s", day)
		}
	}
	if len(days) != 365 || len(offsets) != 2 {
		t.Errorf("%d mornings, by offset %v", len(days), offsets)
	}
}

func TestSurvivesACrashAtEveryCommit(t *testing.T) {
	r := &reporter{func(context.Context, time.Time) error { return nil }}
	made, err := stettest.CrashEverywhere(t, stet.Define("report", r.report), Plan{Zone: "UTC", Hour: 6})
	if err != nil || made.IsZero() {
		t.Errorf("got %s, %v", made, err)
	}
}
