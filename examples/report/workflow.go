package main

import (
	"context"
	"time"

	"github.com/stet-run/stet"
)

// Plan says when and where reports are made.
type Plan struct {
	Zone string `json:"zone"` // "Europe/Berlin"
	Hour int    `json:"hour"`
	Days int    `json:"days"` // how many; 0: for ever
}

// reporter has the workflow with what its steps use.
type reporter struct {
	make func(ctx context.Context, day time.Time) error
}

// morning makes a report at the same hour of each day and returns how many. A
// report that fails for good is left out: the next day is another one.
func (r *reporter) morning(ctx stet.Context, p Plan) (int, error) {
	zone, err := time.LoadLocation(p.Zone)
	if err != nil {
		return 0, err
	}
	type state struct{ Day, Made int }
	return stet.Loop(ctx, "day", state{}, func(ctx stet.Context, s state) (next stet.Next[state, int], err error) {
		at := following(stet.Now(ctx).In(zone), p.Hour)
		if err := stet.SleepUntil(ctx, "night", at); err != nil {
			return next, err
		}
		err = stet.Do(ctx, "report", func(ctx context.Context) error { return r.make(ctx, at) })
		if err == nil {
			s.Made++
		} else {
			stet.Log(ctx).Error("no report", "day", at, "error", err)
		}
		if s.Day++; s.Day == p.Days {
			return next.Break(s.Made), nil
		}
		return next.Continue(s), nil
	}, stet.Keep(31))
}

// following returns the next time after now at which the clock shows the hour.
func following(now time.Time, hour int) time.Time {
	at := time.Date(now.Year(), now.Month(), now.Day(), hour, 0, 0, 0, now.Location())
	if !at.After(now) {
		at = time.Date(now.Year(), now.Month(), now.Day()+1, hour, 0, 0, 0, now.Location())
	}
	return at
}
