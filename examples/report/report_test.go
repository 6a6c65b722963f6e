package main

import (
	"context"
	"errors"
	"testing"
	"time"
	_ "time/tzdata" // this machine may have none

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
	morning := stet.Define("morning", r.morning)
	stettest.Run(t, stet.Config{Workflows: []stet.Definition{morning}}, func(t *testing.T, env *stettest.Env) {
		run, err := morning.Start(t.Context(), env.Engine, Plan{Zone: "Europe/Berlin", Hour: 6, Days: 365})
		if err != nil {
			t.Fatal(err)
		}
		if made, err := run.Wait(t.Context()); err != nil || made != 364 {
			t.Errorf("%d reports, %v", made, err)
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
	made, err := stettest.CrashEverywhere(t, stet.Define("morning", r.morning), Plan{Zone: "UTC", Hour: 6, Days: 3})
	if err != nil || made != 3 {
		t.Errorf("got %d, %v", made, err)
	}
}
