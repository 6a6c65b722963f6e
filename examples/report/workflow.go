package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// Plan says when and where reports are made.
type Plan struct {
	Zone string `json:"zone"` // "Europe/Berlin"
	Hour int    `json:"hour"`
}

// schedule is one report a day. One that takes longer than a day delays the next. One that was missed because no
// process ran is made up for within a day.
func (p Plan) schedule() stet.Schedule {
	return stet.Schedule{
		Cron: fmt.Sprintf("0 %d * * *", p.Hour), Zone: p.Zone,
		Overlap: stet.BufferOne, CatchUp: 24 * time.Hour,
	}
}

// reporter has the workflow with what its steps use.
type reporter struct {
	make func(ctx context.Context, day time.Time) error
}

// report makes the report of the morning for which it was started.
func (r *reporter) report(ctx stet.Context, p Plan) (time.Time, error) {
	zone, err := time.LoadLocation(p.Zone)
	if err != nil {
		return time.Time{}, err
	}
	_, morning, ok := stet.ScheduledFor(ctx)
	if !ok { // it was started by hand
		morning = stet.Now(ctx)
	}
	morning = morning.In(zone)
	return morning, stet.Do(ctx, "report", func(ctx context.Context) error { return r.make(ctx, morning) })
}
