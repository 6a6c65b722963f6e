// Command report makes a report each day at an hour of a time zone.
//
//	go run ./examples/report [--db FILE] [--zone ZONE] [--hour H] FILE
//
// A report is a line in FILE. If no process runs at that hour, the report is made as
// soon as one does. Beside it, stet schedule --db FILE shows the schedule, pauses it,
// and makes the reports of days that have passed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/examples/internal/app"
)

func main() {
	db := flag.String("db", "report.db", "SQLite `file` that keeps the schedule")
	var p Plan
	flag.StringVar(&p.Zone, "zone", "UTC", "time zone")
	flag.IntVar(&p.Hour, "hour", 6, "hour of the day")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: report [flags] FILE")
		flag.PrintDefaults()
		os.Exit(2)
	}
	app.Main("report", func(ctx context.Context) error { return run(ctx, *db, flag.Arg(0), p) })
}

func run(ctx context.Context, db, file string, p Plan) error {
	r := &reporter{func(_ context.Context, day time.Time) error { return line(file, day) }}
	report := stet.Define("report", r.report)
	engine, closer, err := app.Open(ctx, db, stet.Config{Workflows: []stet.Definition{report}})
	if err != nil {
		return err
	}
	defer closer.Close()
	if err := report.Schedule(ctx, engine, "morning", p, p.schedule()); err != nil {
		return err
	}
	return engine.Run(ctx)
}

// line adds a line to a file. A report that is made twice has two.
func line(file string, day time.Time) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, "report of", day.Format(time.DateOnly)); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
