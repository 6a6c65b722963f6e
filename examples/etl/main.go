// Command etl loads the files of many tenants into a warehouse, night after night.
//
//	go run ./examples/etl [--db FILE] [--once] [--cron '0 2 * * *'] IN OUT
//
// IN has a folder for each tenant, with files NAME.csv of lines PRODUCT,AMOUNT. What they come
// to is written to OUT/TENANT/NAME.json. A schedule starts the nights; --once loads at once and
// ends. Of each tenant at most 20 files are read in a second, and a tenant with many files does
// not hold up the others. What has failed is loaded again after a while: correct the file
// meanwhile, and the same night takes it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/examples/internal/app"
)

type options struct {
	db, cron, in, out string
	once              bool
	pause             time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.db, "db", "etl.db", "SQLite `file` that keeps the runs")
	flag.StringVar(&o.cron, "cron", "0 2 * * *", "when the nights begin, in UTC")
	flag.BoolVar(&o.once, "once", false, "load now, and end")
	flag.DurationVar(&o.pause, "pause", 10*time.Minute, "how long to wait before what has failed is loaded again")
	flag.Parse()
	if o.in, o.out = flag.Arg(0), flag.Arg(1); flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: etl [flags] IN OUT")
		flag.PrintDefaults()
		os.Exit(2)
	}
	app.Main("etl", func(ctx context.Context) error { return run(ctx, o, os.Stdout) })
}

// run serves the nights until ctx ends, or one at once.
func run(ctx context.Context, o options, print io.Writer) error {
	p := &pipeline{world: folders{o.in, o.out, print}}
	p.loads = stet.Define("load", p.load)
	nights := stet.Define("night", p.night)
	engine, file, err := app.Open(ctx, o.db, stet.Config{Workflows: []stet.Definition{nights, p.loads}})
	if err != nil {
		return err
	}
	defer file.Close()
	return app.Serve(ctx, engine, func(ctx context.Context) error {
		if err := engine.Queues().Create(ctx, source, stet.QueueSettings{RatePerKey: 20}); err != nil {
			return err
		}
		tenants, err := tenantsOf(o.in)
		if err != nil {
			return err
		}
		night := Night{Tenants: tenants, Pause: o.pause}
		if o.once {
			r, err := nights.Start(ctx, engine, night)
			if err == nil {
				_, err = r.Wait(ctx)
			}
			return err
		}
		if err := nights.Schedule(ctx, engine, "nightly", night, stet.Schedule{Cron: o.cron}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

func tenantsOf(folder string) (tenants []string, err error) {
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if e.IsDir() {
			tenants = append(tenants, e.Name())
		}
	}
	return tenants, err
}

// folders is a world of files.
type folders struct {
	in, out string
	print   io.Writer
}

func (w folders) List(_ context.Context, tenant string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(w.in, tenant))
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".csv"); ok {
			names = append(names, name)
		}
	}
	return names, err
}

func (w folders) Read(_ context.Context, f File) (rows []Row, err error) {
	file, err := os.Open(filepath.Join(w.in, f.Tenant, f.Name+".csv"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		product, text, _ := strings.Cut(lines.Text(), ",")
		amount, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%w: line %d of %s: expected PRODUCT,AMOUNT, found %q", errUnreadable, len(rows)+1, f,
				lines.Text())
		}
		rows = append(rows, Row{product, amount})
	}
	return rows, lines.Err()
}

func (w folders) Write(_ context.Context, f File, totals map[string]int) error {
	data, err := json.Marshal(totals)
	if err != nil {
		return err
	}
	path := filepath.Join(w.out, f.Tenant, f.Name+".json")
	part := path + ".part"
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(part, data, 0o644), os.Rename(part, path))
}

func (w folders) Tell(_ context.Context, r Report) error {
	_, err := fmt.Fprintf(w.print, "%d files, %d rows; failed: %s\n", r.Files, r.Rows, strings.Join(r.Failed, " "))
	return err
}
