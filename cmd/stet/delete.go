package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

func (cc controlCommands) removeCommand() *cobra.Command {
	var t target
	var act stet.Act
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "rm RUN...",
		Short: "delete runs that have ended, with all that belongs to them",
		Long: `Deletes runs that have ended, before their retention is over, with their history,
messages, values and audit; their IDs are free then. stet deletions lists them. With -
the IDs are read from standard input; with --query all runs that match and have ended
are deleted.

A run stays, and the exit code is 4, if it lives, one of its children does, its parent
lives and may ask for its end, or somebody has asked something of it.`,
		Args: t.args,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkWho(cmd, act.By); err != nil {
				return err
			}
			if c, err := cc.client(); c != nil || err != nil {
				return orBy(errors.Join(err, refuseLocal(cmd)), func() error {
					if dryRun {
						return cc.deletable(cmd.Context(), serverSide{cc.app, c}, &t, func(id string) ([]string, error) {
							return c.Deletable(cmd.Context(), id, act.Children)
						})
					}
					return cc.eachBy(cmd.Context(), c, &t, func(ctx context.Context, id string) error {
						_, err := c.Delete(ctx, id, api.Act{Reason: act.Why, Children: act.Children})
						if errors.Is(err, stet.ErrNotFound) && len(t.ids) == 0 {
							return nil // it went with its parent
						}
						return err
					})
				})
			}
			return cc.with(cmd.Context(), func(e *stet.Engine, s store.Store) error {
				if dryRun {
					return cc.deletable(cmd.Context(), storeSide{cc.app, e, s}, &t, func(id string) ([]string, error) {
						return e.Runs().Deletable(cmd.Context(), id, act.Children)
					})
				}
				return cc.each(cmd.Context(), e, &t, func(ctx context.Context, id string) error {
					_, err := e.Runs().Delete(ctx, id, act)
					switch {
					case errors.Is(err, stet.ErrNotFound) && len(t.ids) == 0:
						return nil // it went with its parent
					case errors.Is(err, stet.ErrRefused):
						return conflictError{err}
					}
					return err
				})
			})
		},
	}
	t.flags(cmd, "delete", func(r *stet.RunInfo) bool { return r.Status.Terminal() })
	cmd.Flags().BoolVar(&act.Children, "children", false, "the children of the runs too, and theirs")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be deleted, and change nothing")
	cmd.Flags().StringVar(&act.Why, "reason", "", "`text` that is kept with the deletion")
	whoFlag(cmd, &act.By)
	return cmd
}

// deletable prints what would be deleted with the chosen runs. A query needs no --yes.
func (cc controlCommands) deletable(
	ctx context.Context, from side, t *target, deletable func(id string) ([]string, error),
) error {
	t.yes = true
	ids, err := from.choose(ctx, t)
	if err != nil {
		return err
	}
	var problems []error
	g := &grid{headers: []string{"RUN", "DELETED"}}
	for _, id := range ids {
		runs, err := deletable(id)
		switch {
		case errors.Is(err, stet.ErrRefused):
			problems = append(problems, conflictError{err})
		case err != nil:
			problems = append(problems, err)
		case cc.output == formJSON:
			err = cc.json(struct {
				ID      string   `json:"id"`
				Deleted []string `json:"deleted"`
			}{id, runs})
		case cc.output == formIDs:
			for _, run := range runs {
				err = errors.Join(err, cc.id(run))
			}
		default:
			g.add(printable(id), printable(strings.Join(runs, ", ")))
		}
		if err != nil && len(problems) == 0 {
			return err
		}
	}
	if cc.output == formTable && len(g.rows) > 0 {
		if err := cc.print(g); err != nil {
			return err
		}
	}
	return joinRuns(problems)
}

func (cc controlCommands) deletionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "deletions",
		Short: "list runs that were deleted by stet rm, newest first, with who and why",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cc.reading(cmd.Context(), func(from side) error {
				list, err := from.deletions(cmd.Context())
				if err != nil {
					return err
				}
				return cc.printDeletions(list)
			})
		},
	}
}

func (cc controlCommands) printDeletions(list []api.Deletion) error {
	g := &grid{headers: []string{"AT", "RUN", "NUMBER", "WORKFLOW", "STATUS", "BY", "REASON"}}
	for _, d := range list {
		var err error
		switch cc.output {
		case formIDs:
			err = cc.id(d.ID)
		case formJSON:
			err = cc.json(d)
		default:
			g.add(moment(store.TimeOf(d.At)), printable(d.ID), fmt.Sprint(d.Number), printable(d.Workflow), d.Status.String(),
				printable(d.By), printable(d.Reason))
		}
		if err != nil {
			return err
		}
	}
	if cc.output == formTable {
		return cc.print(g)
	}
	return nil
}
