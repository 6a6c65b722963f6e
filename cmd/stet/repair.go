package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/store"
)

func (cc controlCommands) retryCommand() *cobra.Command {
	v := verb{
		name: "retry", short: "retry failed runs from the operation that has failed",
		about: `The failed operation and those completed since are executed again, with fresh
attempts and the same idempotency keys. If the function of a run has failed by itself,
only its end is taken back: fix the code first.`,
		// A query for failed runs must not resume those that are stalled by their failure.
		fits: func(r *stet.RunInfo) bool { return r.Status == store.Failed && may(store.ItemRetry)(r) },
	}
	v.ask = func(e *stet.Engine, ctx context.Context, id string) (bool, error) {
		return e.Runs().Retry(ctx, id, v.act())
	}
	v.takesUp, v.kind = true, store.ItemRetry
	return v.command(cc.app, v.anyBuildFlag, v.dryRunFlag)
}

func (cc controlCommands) rewindCommand() *cobra.Command {
	var before string
	v := verb{
		name: "rewind", short: "revert runs to before a location, and execute everything since again",
		about: `--before is a location as show --output json prints it, or / for the beginning. What
completed before it stands; the rest is reverted and executed again, with new
idempotency keys. The run must have ended, be stalled or paused.`,
		fits: may(store.ItemRewind),
	}
	v.ask = func(e *stet.Engine, ctx context.Context, id string) (bool, error) {
		return e.Runs().Rewind(ctx, id, before, v.act())
	}
	v.askBy = func(ctx context.Context, c *client.Client, id string, act api.Act) (bool, error) {
		return c.Rewind(ctx, id, api.Rewind{Act: act, Before: before}, byServer(v.timeout))
	}
	v.takesUp, v.kind, v.at = true, store.ItemRewind, &before
	cmd := v.command(cc.app, v.anyBuildFlag, v.dryRunFlag)
	beforeFlag(cmd, &before)
	return cmd
}

func beforeFlag(cmd *cobra.Command, before *string) {
	cmd.Flags().StringVar(before, "before", "", "`location` from which on everything is reverted; / is the beginning")
	needFlag(cmd, "before")
}

// needFlag makes a flag of the command mandatory.
func needFlag(cmd *cobra.Command, name string) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed(name) {
			return usage(fmt.Errorf("--%s: expected a value, found none", name))
		}
		return run(cmd, args)
	}
}

func (cc controlCommands) forkCommand() *cobra.Command {
	var before, id, reason, who string
	var dryRun bool
	var t target
	cmd := &cobra.Command{
		Use:   "fork RUN...",
		Short: "start new runs from before a location of others, which stay as they are",
		Long: `Starts a new run for each, which begins with the history that a rewind would keep, and
prints its ID. The run must have ended, be stalled or paused. With - the IDs are
read from standard input; with --query it is done for all runs that match.`,
		Args: t.args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkWho(cmd, who); err != nil {
				return err
			}
			var ids []stet.ID
			if cmd.Flags().Changed("id") {
				if len(t.ids) != 1 || t.ids[0] == "-" {
					return usage(errors.New("--id: expected the ID of one run to be forked"))
				}
				ids = append(ids, stet.ID(id))
			}
			if c, err := cc.client(); c != nil || err != nil {
				return orBy(errors.Join(err, refuseLocal(cmd)), func() error {
					if dryRun {
						return cc.previewForks(cmd.Context(), serverSide{cc.app, c}, &t, func(id string) (*api.Preview, error) {
							return c.Preview(cmd.Context(), id, "rewind", before)
						})
					}
					chosen, err := cc.chooseBy(cmd.Context(), c, &t)
					if err != nil {
						return err
					}
					return cc.forks(&t, chosen, func(run string) (string, error) {
						return c.Fork(cmd.Context(), run, "", api.Fork{Reason: reason, Before: before, ID: id})
					})
				})
			}
			return cc.with(cmd.Context(), func(e *stet.Engine, s store.Store) error {
				if dryRun {
					return cc.previewForks(cmd.Context(), storeSide{cc.app, e, s}, &t, func(id string) (*api.Preview, error) {
						p, err := e.Runs().Preview(cmd.Context(), id, store.ItemRewind, before)
						if err != nil {
							return nil, err
						}
						return api.PreviewOf(id, p), nil
					})
				}
				chosen, err := cc.choose(cmd.Context(), e, &t)
				if err != nil {
					return err
				}
				return cc.forks(&t, chosen, func(run string) (string, error) {
					return e.Runs().Fork(cmd.Context(), run, before, stet.Act{By: who, Why: reason}, ids...)
				})
			})
		},
	}
	t.flags(cmd, "fork", func(r *stet.RunInfo) bool {
		// A fork is no request to the run, and a superseded run may be forked too.
		return r.Status.Terminal() || may(store.ItemRewind)(r)
	})
	beforeFlag(cmd, &before)
	cmd.Flags().StringVar(&id, "id", "", "`ID` of the new run; default: a new one")
	cmd.Flags().StringVar(&reason, "reason", "", "`text` that is kept with the new run")
	whoFlag(cmd, &who)
	dryRunFlag(cmd, &dryRun)
	return cmd
}

// previewForks prints what forks would leave out. preview is that of a rewind, but a fork
// cancels nothing.
func (cc controlCommands) previewForks(
	ctx context.Context, from side, t *target, preview func(id string) (*api.Preview, error),
) error {
	return cc.previews(ctx, from, t, func(id string) (*api.Preview, error) {
		p, err := preview(id)
		if err == nil {
			p.Cancelled = nil
		}
		return p, err
	})
}

// forks forks the chosen runs and prints the IDs of the new ones.
func (cc controlCommands) forks(t *target, ids []string, fork func(string) (string, error)) error {
	var problems []error
	for _, id := range ids {
		made, err := fork(id)
		if err != nil {
			problems = append(problems, err)
		}
		var printed error
		switch {
		case cc.output == formJSON:
			view := struct {
				From  string `json:"from"`
				ID    string `json:"id,omitempty"`
				Error string `json:"error,omitempty"`
			}{From: id, ID: made}
			if err != nil {
				view.Error = err.Error()
			}
			printed = cc.json(view)
		case err == nil:
			printed = cc.id(made)
		}
		if printed != nil {
			return errors.Join(printed, joinRuns(problems))
		}
	}
	if len(t.ids) != 1 || t.ids[0] == "-" {
		cc.say("%d of %d done", len(ids)-len(problems), len(ids))
	}
	return joinRuns(problems)
}

func (cc controlCommands) editCommand() *cobra.Command {
	var step, failure string
	var value json.RawMessage
	v := verb{
		name: "edit", short: "replace the recorded outcome of a step, and continue the runs",
		about: `The outcome is --result with JSON, - reads it from standard input, or --error with a
text. The run must have ended, be stalled or paused.`,
		fits: may(store.ItemEdit),
	}
	v.ask = func(e *stet.Engine, ctx context.Context, id string) (bool, error) {
		if value == nil {
			return e.Runs().EditFailure(ctx, id, step, errors.New(failure), v.act())
		}
		return e.Runs().EditResult(ctx, id, step, value, v.act())
	}
	v.askBy = func(ctx context.Context, c *client.Client, id string, act api.Act) (bool, error) {
		edit := api.Edit{Act: act, Step: step, Result: value}
		if value == nil {
			edit.Error = &failure
		}
		return c.Edit(ctx, id, edit, byServer(v.timeout))
	}
	v.takesUp, v.kind, v.at = true, store.ItemEdit, &step
	cmd := v.command(cc.app, v.anyBuildFlag, v.dryRunFlag)
	var result string
	cmd.Flags().StringVar(&step, "step", "", "`location` of the step")
	cmd.Flags().StringVar(&result, "result", "", "the `JSON` that it returns from now on")
	cmd.Flags().StringVar(&failure, "error", "", "the `text` of the error with which it has failed")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if cmd.Flags().Changed("result") == cmd.Flags().Changed("error") {
			return usage(errors.New("expected one of --result and --error"))
		}
		if cmd.Flags().Changed("result") {
			if result == "-" && len(args) == 1 && args[0] == "-" {
				return usage(errors.New("expected - once: standard input holds IDs or the result"))
			}
			if value, err = cc.jsonArgument([]string{result}, 0); err != nil {
				return err
			}
		}
		return run(cmd, args)
	}
	needFlag(cmd, "step")
	return cmd
}
