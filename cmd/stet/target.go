package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/store"
)

// atOnce bounds the runs that a command for several changes at the same time.
const atOnce = 64

// target selects the runs that a command is for.
type target struct {
	ids   []string // - alone: from standard input
	query string
	yes   bool
	verb  string                   // "cancel", "send to"
	fits  func(*stet.RunInfo) bool // which of the runs that the query finds
}

// flags adds the flags that choose many runs.
func (t *target) flags(cmd *cobra.Command, verb string, fits func(*stet.RunInfo) bool) {
	t.verb, t.fits = verb, fits
	cmd.Flags().StringVar(&t.query, "query", "",
		"all runs that match this `filter`, like 'workflow=a status=failed'; id=* is all")
	cmd.Flags().BoolVar(&t.yes, "yes", false, "do it for all that --query finds")
}

// queried reports whether the runs are chosen by a filter.
func (*target) queried(cmd *cobra.Command) bool { return cmd.Flags().Changed("query") }

// args expects IDs or a filter.
func (t *target) args(cmd *cobra.Command, args []string) error {
	switch {
	case !t.queried(cmd) && len(args) == 0:
		return usage(errors.New("expected the IDs of runs, - to read them from standard input, or --query"))
	case t.queried(cmd) && len(args) > 0:
		return usage(errors.New("expected IDs or --query, found both"))
	}
	t.ids = args
	return nil
}

// question returns what --query asks for.
func (t *target) question() (*question, error) {
	if t.query == "" {
		return nil, usage(errors.New("--query: expected a filter, found an empty one; id=* is all runs"))
	}
	return parseQuestion(nil, t.query)
}

// choose returns the IDs of the chosen runs.
func (a *app) choose(ctx context.Context, e *stet.Engine, t *target) ([]string, error) {
	if len(t.ids) > 0 {
		return a.runIDs(t.ids)
	}
	q, err := t.question()
	if err != nil {
		return nil, err
	}
	var ids []string
	from := storeSide{a, e, e.Store()}
	if err := q.resolve(ctx, from); err != nil {
		return nil, err
	}
	q.Values = q.waits != ""
	err = eachRun(ctx, e, q.Filter, func(r *stet.RunInfo) {
		if q.fits(r) && t.fits(r) {
			ids = append(ids, r.ID)
		}
	})
	if err == nil && len(ids) == 0 {
		err = q.checkWorkflows(ctx, from)
	}
	if err != nil {
		return nil, err
	}
	if !t.yes {
		return nil, usage(fmt.Errorf("--query finds %d runs: add --yes to %s them", len(ids), t.verb))
	}
	return ids, nil
}

// eachRun calls fn for all runs that match, newest first.
func eachRun(ctx context.Context, e *stet.Engine, filter store.Filter, fn func(*stet.RunInfo)) error {
	filter.Limit = store.MaxPage
	for {
		runs, next, err := e.Runs().List(ctx, filter)
		if err != nil {
			return err
		}
		for i := range runs {
			fn(&runs[i])
		}
		if filter.Cursor = next; next == "" {
			return nil
		}
	}
}

// each calls fn for the chosen runs, several at a time. It goes on after an error.
func (a *app) each(
	ctx context.Context, e *stet.Engine, t *target, fn func(ctx context.Context, id string) error,
) error {
	ids, err := a.choose(ctx, e, t)
	if err != nil {
		return err
	}
	return a.eachOf(ctx, ids, t, fn)
}

// eachBy is each by a server.
func (a *app) eachBy(
	ctx context.Context, c *client.Client, t *target, fn func(ctx context.Context, id string) error,
) error {
	ids, err := a.chooseBy(ctx, c, t)
	if err != nil {
		return err
	}
	return a.eachOf(ctx, ids, t, fn)
}

// eachOf acts on the chosen runs, some at the same time.
func (a *app) eachOf(
	ctx context.Context, ids []string, t *target, fn func(ctx context.Context, id string) error,
) error {
	bar := newProgress(a.err, sizeOf(a.err).width, t.verb, len(ids))
	results := make([]error, len(ids))
	room := make(chan struct{}, atOnce)
	var calls sync.WaitGroup
	for i, id := range ids {
		room <- struct{}{}
		calls.Go(func() {
			defer func() { <-room }()
			results[i] = fn(ctx, id)
			bar.step()
		})
	}
	calls.Wait()
	bar.end()
	return a.report(t, ids, results)
}

// report prints the result for each run.
func (a *app) report(t *target, ids []string, results []error) error {
	var problems []error
	for i, err := range results {
		if err != nil {
			problems = append(problems, err)
		}
		var printed error
		switch {
		case a.output == formJSON:
			view := struct {
				ID    string `json:"id"`
				Done  bool   `json:"done"`
				Error string `json:"error,omitempty"`
			}{ID: ids[i], Done: err == nil}
			if err != nil {
				view.Error = err.Error()
			}
			printed = a.json(view)
		case a.output == formIDs && err == nil:
			printed = a.id(ids[i])
		}
		if printed != nil {
			return errors.Join(printed, joinRuns(problems))
		}
	}
	if len(t.ids) != 1 || t.ids[0] == "-" {
		a.say("%d of %d done", len(ids)-len(problems), len(ids))
	}
	return joinRuns(problems)
}
