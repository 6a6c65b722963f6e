package stet_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// A report each night at three, Berlin time. A night whose run has not ended by the
// next one is skipped; one that nobody could start in time is made up for within
// six hours.
func ExampleWorkflow_Schedule() {
	report := stet.Define("report", func(ctx stet.Context, team string) (string, error) {
		_, night, _ := stet.ScheduledFor(ctx)
		return stet.Step(ctx, "write", func(context.Context) (string, error) {
			return team + " on " + night.Format(time.DateOnly), nil
		})
	})
	engine, stop := background(report)
	defer stop()
	ctx := context.Background()

	err := report.Schedule(ctx, engine, "nightly", "sales", stet.Schedule{
		Cron: "0 3 * * *", Zone: "Europe/Berlin", CatchUp: 6 * time.Hour,
	}, stet.RefuseExisting)
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := engine.Schedules().Info(ctx, "nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Workflow, info.Schedule.Cron, info.Schedule.Zone, info.Schedule.Overlap, len(info.Next))
	// Output: report 0 3 * * * Europe/Berlin skip 5
}

// What operators do with a schedule.
func ExampleSchedules_Trigger() {
	report := stet.Define("report", func(ctx stet.Context, team string) (string, error) {
		name, _, _ := stet.ScheduledFor(ctx)
		return name + " for " + team, nil
	})
	engine, stop := background(report)
	defer stop()
	ctx := context.Background()

	if err := report.Schedule(ctx, engine, "nightly", "sales",
		stet.Schedule{Cron: "0 3 * * *", Paused: true}); err != nil {
		fmt.Println(err)
		return
	}
	runID, err := engine.Schedules().Trigger(ctx, "nightly", stet.Act{}) // now, though it is paused
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Handle(engine, runID).Wait(ctx))

	fmt.Println(engine.Schedules().Resume(ctx, "nightly", stet.Act{}))
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	fmt.Println(engine.Schedules().Backfill(ctx, "nightly", first, first.AddDate(0, 0, 7), stet.Act{}))
	fmt.Println(engine.Schedules().Delete(ctx, "nightly", stet.Act{}))
	// Output:
	// nightly for sales <nil>
	// <nil>
	// <nil>
	// <nil>
}
