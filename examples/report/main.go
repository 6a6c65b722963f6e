// Command report makes a report each day at an hour of a time zone.
//
//	go run ./examples/report [--db FILE] [--zone ZONE] [--hour H] [--days N] FILE
//
// A report is a line in FILE. If no process runs at that hour, the report is made as
// soon as one does.
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
	db := flag.String("db", "report.db", "SQLite `file` that keeps the run")
	var p Plan
	flag.StringVar(&p.Zone, "zone", "UTC", "time zone")
	flag.IntVar(&p.Hour, "hour", 6, "hour of the day")
	flag.IntVar(&p.Days, "days", 0, "how many reports; 0: for ever")
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
	morning := stet.Define("morning", r.morning)
	engine, closer, err := app.Open(ctx, db, stet.Config{Workflows: []stet.Definition{morning}})
	if err != nil {
		return err
	}
	defer closer.Close()
	return app.Serve(ctx, engine, func(ctx context.Context) error {
		run, err := morning.Start(ctx, engine, p, stet.ID("report-"+file))
		if err != nil {
			return err
		}
		_, err = run.Wait(ctx)
		return err
	})
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
