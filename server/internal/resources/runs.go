package resources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/store"
)

// mostCounted is at how many runs of a status counting ends, unless it is to be exact.
const mostCounted = 1000

// maxRuns bounds a page of runs with their values.
const maxRuns = 1000

type listRuns struct {
	Query  string `query:"query" doc:"filter, as stet ls takes it; empty: all runs"`
	Limit  int    `query:"limit" doc:"runs in a page, up to 1000; default 100"`
	Cursor string `query:"cursor" doc:"next of the page before"`
	Order  string `query:"order" doc:"created (the default): newest first; ended: what ended last first"`
	Values string `query:"values" doc:"none leaves inputs, outputs, errors and waits out"`
}

func (s *Server) listRuns(ctx context.Context, c *endpoint.Call, in listRuns) (*api.Runs, error) {
	if !slices.Contains([]string{"", "created", "ended"}, in.Order) {
		return nil, invalid("order: expected created or ended, found %.100q", in.Order)
	}
	f, err := s.filter(ctx, c, in.Query)
	if err != nil {
		return nil, err
	}
	f.ByEnded = in.Order == "ended"
	if f.Limit, err = limit(in.Limit, store.DefaultPage, maxRuns); err != nil {
		return nil, err
	}
	if f.Values, err = withValues(in.Values); err != nil {
		return nil, err
	}
	bound := binding("runs", in.Query, in.Order, c.Who)
	if f.Cursor, err = bound.open(in.Cursor); err != nil {
		return nil, err
	}
	runs, next, err := c.View.Runs(ctx, f)
	if err != nil {
		return nil, err
	}
	if runs == nil {
		runs = []*api.Run{}
	}
	return &api.Runs{Runs: runs, Next: bound.seal(next)}, nil
}

// filter reads a query as the command line does.
func (s *Server) filter(ctx context.Context, c *endpoint.Call, query string) (store.Filter, error) {
	f, err := store.ParseFilter(query)
	if err != nil {
		return f, fmt.Errorf("query: %w", err)
	}
	if err := parentOf(ctx, c, &f); err != nil {
		return f, err
	}
	if n := len(f.IDs) + len(f.Nos) + len(f.Workflows) + len(f.Statuses) + len(f.Tags) + len(f.Claimed); n > maxTerms {
		return f, invalid("query: expected at most %d values, found %d; ask in parts", maxTerms, n)
	}
	return f, nil
}

// parentOf resolves the parent of a filter, which the identity has to see.
func parentOf(ctx context.Context, c *endpoint.Call, f *store.Filter) error {
	found, err := f.ResolveParent(func(id string) (store.RunNo, error) {
		parent, err := c.View.Info(ctx, id)
		if err != nil {
			if errors.Is(err, stet.ErrNotFound) {
				return 0, nil
			}
			return 0, err
		}
		return parent.Number, nil
	})
	if err == nil && !found {
		err = fmt.Errorf("query: parent: expected the ID or number of a run, found %q: %w", f.ParentID, stet.ErrNotFound)
	}
	return err
}

// maxTerms bounds the values of a filter: a store may compare each run with each of them.
const maxTerms = 1000

type countRuns struct {
	Query string `query:"query" doc:"filter, as stet ls takes it; empty: all runs"`
	By    string `query:"by" doc:"status or workflow; default: both"`
	// All who look at one list ask for the same, each time that it changes.
	Age   time.Duration `query:"age" doc:"how old the answer may be; 1s: others who ask may share it; default 0"`
	Exact bool          `query:"exact" doc:"count all; otherwise counting ends at 1000 runs of a status, and more says so"`
}

func (s *Server) countRuns(ctx context.Context, c *endpoint.Call, in countRuns) (*api.Counts, error) {
	f, err := s.filter(ctx, c, in.Query)
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"", "status", "workflow"}, in.By) {
		return nil, invalid("by: expected status or workflow, found %.100q", in.By)
	}
	if !in.Exact && in.By != "workflow" { // the last workflows would be missing
		f.Most = mostCounted
	}
	if in.Exact || in.Age < sharedFor {
		return counted(ctx, c, f, in.By)
	}
	return s.counts.read(ctx, string(binding("counts", in.Query, in.By, c.Who)), func() (*api.Counts, error) {
		return counted(ctx, c, f, in.By)
	})
}

// counted counts the runs that match.
func counted(ctx context.Context, c *endpoint.Call, f store.Filter, by string) (*api.Counts, error) {
	tallies, err := c.View.Count(ctx, f)
	if err != nil {
		return nil, err
	}
	more := endsEarly(tallies, f.Most)
	counts := []api.Tally{}
	for _, t := range tallies {
		row := api.Tally{Workflow: t.Workflow, Status: t.Status.String(), Runs: t.Runs, More: more[t.Status]}
		switch by {
		case "status":
			row.Workflow = ""
		case "workflow":
			row.Status = ""
		}
		same := func(o api.Tally) bool { return o.Workflow == row.Workflow && o.Status == row.Status }
		if i := slices.IndexFunc(counts, same); i >= 0 {
			counts[i].Runs += row.Runs
			counts[i].More = counts[i].More || row.More
			continue
		}
		counts = append(counts, row)
	}
	for i := range counts {
		if counts[i].More && by == "status" {
			counts[i].Runs = mostCounted
		}
	}
	slices.SortFunc(counts, func(a, b api.Tally) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Status, b.Status))
	})
	return &api.Counts{Counts: counts}, nil
}

// endsEarly returns the statuses of which there are more runs than were counted.
func endsEarly(tallies []store.Tally, most int) map[store.Status]bool {
	runs, more := map[store.Status]int64{}, map[store.Status]bool{}
	for _, t := range tallies {
		runs[t.Status] += t.Runs
		more[t.Status] = most > 0 && runs[t.Status] > int64(most)
	}
	return more
}

type oneRun struct {
	ID string `path:"id" doc:"the run's ID; ~ and base64url if it has unusual bytes"`
}

// maxWait bounds how long a request waits.
const maxWait = time.Minute

type getRun struct {
	oneRun
	Wait time.Duration `query:"wait" doc:"answer once the run has ended or stalled, after at most this; up to 60s"`
}

func (s *Server) getRun(ctx context.Context, c *endpoint.Call, in getRun) (*api.Run, error) {
	wait, err := within(in.Wait, 0)
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if err := s.wait(waiting, c, in.ID); err != nil {
			return nil, err
		}
	}
	return c.View.Run(ctx, in.ID)
}

// wait waits until a run has ended or stalled; for a client that names the state that it
// knows in If-None-Match, until the run stands otherwise.
func (s *Server) wait(ctx context.Context, c *endpoint.Call, id string) error {
	if c.Request.Header.Get("If-None-Match") == "" {
		return c.View.Wait(ctx, id)
	}
	pause := time.NewTicker(changeEvery)
	defer pause.Stop()
	for {
		run, err := c.View.Run(ctx, id)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		tag, err := endpoint.TagOf(run)
		if err != nil || !endpoint.Matches(c.Request, tag) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
	}
}

// changeEvery is how often is looked whether a run has changed.
const changeEvery = time.Second / 2

const (
	maxEntries   = 2000
	maxLocations = 100
)

type history struct {
	oneRun
	After  string   `query:"after" doc:"only locations after this one"`
	Limit  int      `query:"limit" doc:"entries in a page, up to 2000, which is the default"`
	Above  int64    `query:"above" doc:"only entries with a higher number, or without one"`
	Values string   `query:"values" doc:"none leaves values out"`
	At     []string `query:"at" doc:"exactly the entries at these locations, up to 100, with values"`
}

func (s *Server) history(ctx context.Context, c *endpoint.Call, in history) (*api.History, error) {
	q := stet.HistoryQuery{After: in.After, At: in.At}
	var err error
	if q.Values, err = withValues(in.Values); err != nil {
		return nil, err
	}
	if len(in.At) > maxLocations {
		return nil, invalid("at: expected at most %d locations, found %d", maxLocations, len(in.At))
	}
	size, err := limit(in.Limit, maxEntries, maxEntries)
	if err != nil {
		return nil, err
	}
	q.Limit = size
	entries, more, err := c.View.History(ctx, in.ID, q)
	if err != nil {
		return nil, err
	}
	page := &api.History{Entries: entries}
	if more {
		page.Next = entries[len(entries)-1].Location
	}
	if in.Above > 0 {
		page.Entries = slices.DeleteFunc(page.Entries, func(e *api.Entry) bool {
			return e.Number > 0 && e.Number <= in.Above
		})
	}
	return page, nil
}
