package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

// errRefused says that the owner of a run has refused a request.
var errRefused = errors.New("refused")

// bulk says which runs a verb is for.
type bulk struct {
	ids   []string // "-" alone: from standard input
	query string
	yes   bool
	what  string // "cancel"
	live  bool   // only runs that have not ended
}

func bulkFlags(cmd *cobra.Command, query *string, yes *bool) {
	cmd.Flags().StringVar(query, "query", "", "all runs that match this `filter`, like 'workflow=a status=failed'")
	cmd.Flags().BoolVar(yes, "yes", false, "do it for all that --query finds")
}

// each calls fn for each chosen run. With several, one that fails does not keep
// the others from their turn.
func (a *app) each(ctx context.Context, e *stet.Engine, b bulk, fn func(id string) error) error {
	ids, err := a.choose(ctx, e, b)
	if err != nil {
		return err
	}
	var problems []error
	done := 0
	for _, id := range ids {
		if err := fn(id); err != nil {
			problems = append(problems, err)
			continue
		}
		done++
	}
	if b.query != "" || len(ids) > 1 {
		fmt.Fprintf(a.err, "%d of %d done\n", done, len(ids))
	}
	return errors.Join(problems...)
}

// choose returns the IDs of the chosen runs.
func (a *app) choose(ctx context.Context, e *stet.Engine, b bulk) ([]string, error) {
	if b.query == "" {
		if len(b.ids) != 1 || b.ids[0] != "-" {
			return b.ids, nil
		}
		var ids []string
		lines := bufio.NewScanner(a.in)
		for lines.Scan() {
			if id := strings.TrimSpace(lines.Text()); id != "" {
				ids = append(ids, id)
			}
		}
		return ids, lines.Err()
	}
	filter, err := store.ParseFilter(b.query)
	if err != nil {
		return nil, err
	}
	filter.Limit = store.MaxPage
	var ids []string
	for {
		page, err := e.List(ctx, filter)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			if !b.live || !page.Runs[i].Status.Terminal() {
				ids = append(ids, page.Runs[i].ID)
			}
		}
		if page.Next == "" {
			break
		}
		filter.Cursor = page.Next
	}
	if !b.yes {
		return nil, usage(fmt.Errorf("this would %s %d runs; add --yes to do it", b.what, len(ids)))
	}
	return ids, nil
}

// verbCommand makes a command that asks the owner of runs for something.
func (a *app) verbCommand(name, short string, live bool, ask func(context.Context, *stet.Engine, string, string) (bool, error)) *cobra.Command {
	var query, reason string
	var yes bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   name + " RUN",
		Short: short,
		Long:  short + ". With - the IDs are read from standard input, with --query it is done for all that match.",
		Args: func(cmd *cobra.Command, args []string) error {
			if query != "" {
				return exactly()(cmd, args)
			}
			if len(args) == 0 {
				return usage(errors.New("expected the ID of a run, - or --query"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return usage(fmt.Errorf("--timeout: expected a positive duration, found %s", timeout))
			}
			ctx := cmd.Context()
			return a.deciding(ctx, func(e *stet.Engine, _ *sqlite.Store) error {
				return a.each(ctx, e, bulk{ids: args, query: query, yes: yes, what: name, live: live}, func(id string) error {
					wait, cancel := context.WithTimeout(ctx, timeout)
					defer cancel()
					ok, err := ask(wait, e, id, reason)
					switch {
					case errors.Is(err, stet.ErrPending):
						return fmt.Errorf("%s %s: nobody has decided within %s; the request stands until an application with the code works on the store: %w",
							name, id, timeout, err)
					case ok || errors.Is(err, stet.ErrNotFound) || errors.Is(err, stet.ErrTerminal):
						return err
					case err != nil:
						return fmt.Errorf("%w: %w", errRefused, err)
					}
					return nil
				})
			})
		},
	}
	bulkFlags(cmd, &query, &yes)
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long to wait for the decision")
	if name != "resume" {
		cmd.Flags().StringVar(&reason, "reason", "", "`text` that is kept with the run")
	}
	return cmd
}

func (a *app) cancelCommand() *cobra.Command {
	return a.verbCommand("cancel", "cancel a run; its code cleans up", true,
		func(ctx context.Context, e *stet.Engine, id, reason string) (bool, error) {
			return e.Cancel(ctx, id, reason)
		})
}

func (a *app) terminateCommand() *cobra.Command {
	return a.verbCommand("terminate", "end a run at once, without its code", true,
		func(ctx context.Context, e *stet.Engine, id, reason string) (bool, error) {
			return e.Terminate(ctx, id, reason)
		})
}

func (a *app) resumeCommand() *cobra.Command {
	return a.verbCommand("resume", "let a stalled run go on", true,
		func(ctx context.Context, e *stet.Engine, id, _ string) (bool, error) { return e.Resume(ctx, id) })
}
