package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet"
)

// Night is what a night loads.
type Night struct {
	Tenants []string
	Pause   time.Duration // before what has failed is loaded again
}

// File is a file of a tenant.
type File struct{ Tenant, Name string }

func (f File) String() string { return f.Tenant + "/" + f.Name }

// Row is a line of a file.
type Row struct {
	Product string
	Amount  int
}

// Report is what became of a night.
type Report struct {
	Files, Rows int
	Failed      []string `json:",omitempty"`
}

// World is where files come from, and where totals go to.
type World interface {
	List(ctx context.Context, tenant string) ([]string, error)
	Read(ctx context.Context, f File) ([]Row, error)
	// Write replaces what was written for the file before, so it may be repeated.
	Write(ctx context.Context, f File, totals map[string]int) error
	Tell(ctx context.Context, r Report) error
}

// errUnreadable is a file that no further attempt can read, as long as nobody replaces it.
var errUnreadable = errors.New("the file cannot be read")

const (
	source = "source" // the queue that keeps each tenant's reads to a rate
	rounds = 3        // in which a file is loaded, at most
)

type pipeline struct {
	world World
	loads *stet.Workflow[File, int]
}

// reads is the permit of a step that reads from a tenant's source: the tenants share one
// queue, and each has the rate for itself.
func reads(tenant string) stet.Permit { return stet.Permit{Queue: source, Key: tenant} }

// night loads all files of all tenants, each by a child. What has failed is loaded again, in
// a later round; what fails in the last one is in the report.
func (p *pipeline) night(ctx stet.Context, in Night) (Report, error) {
	lists, err := stet.Map(ctx, "tenant", in.Tenants, func(ctx stet.Context, tenant string) ([]string, error) {
		return stet.Step(ctx, "list", func(ctx context.Context) ([]string, error) {
			return p.world.List(ctx, tenant)
		}, reads(tenant))
	})
	if err != nil {
		return Report{}, err
	}
	var todo []File
	for i, names := range lists {
		for _, name := range names {
			todo = append(todo, File{in.Tenants[i], name})
		}
	}
	var report Report
	for round := 1; len(todo) > 0; round++ {
		if round > 1 {
			if err := stet.Sleep(ctx, "pause", in.Pause); err != nil {
				return report, err
			}
		}
		failed, err := p.round(ctx, round, todo, &report)
		if err != nil {
			return report, err
		}
		if todo = failed; round == rounds {
			break
		}
	}
	for _, f := range todo {
		report.Failed = append(report.Failed, f.String())
	}
	return report, stet.Do(ctx, "report", func(ctx context.Context) error { return p.world.Tell(ctx, report) })
}

// round loads files side by side and returns those that have failed.
func (p *pipeline) round(ctx stet.Context, round int, files []File, report *Report) (failed []File, err error) {
	children := make([]*stet.RunFuture[int], len(files))
	for i, f := range files {
		key := stet.Key(fmt.Sprintf("%d/%s", round, f))
		if children[i], err = p.loads.Go(ctx, f, key, stet.MaxRunTime(6*time.Hour)); err != nil {
			return nil, err
		}
	}
	for i, child := range children {
		rows, err := child.Await(ctx)
		var its *stet.RunError
		switch {
		case err == nil:
			report.Files, report.Rows = report.Files+1, report.Rows+rows
		case errors.As(err, &its): // the child's own; another is that the night was cancelled
			failed = append(failed, files[i])
		default:
			return nil, err
		}
	}
	return failed, nil
}

// load takes one file from its source to the warehouse and returns its number of rows.
func (p *pipeline) load(ctx stet.Context, f File) (int, error) {
	rows, err := stet.Step(ctx, "extract", func(ctx context.Context) ([]Row, error) {
		rows, err := p.world.Read(ctx, f)
		if errors.Is(err, errUnreadable) {
			return nil, stet.Permanent(err)
		}
		return rows, err
	}, reads(f.Tenant), stet.Retry{Attempts: 3})
	if err != nil {
		return 0, err
	}
	totals := map[string]int{} // transform: code between steps needs no record
	for _, r := range rows {
		totals[r.Product] += r.Amount
	}
	return len(rows), stet.Do(ctx, "load", func(ctx context.Context) error { return p.world.Write(ctx, f, totals) })
}
