package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

func (rc runCommands) waitCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait RUN...",
		Short: "wait for the end of runs and print their results",
		Long: `Waits until runs have ended or stalled, and prints the result of each as JSON.
With - the IDs are read from standard input. The exit code is 5 if a run has not
succeeded.`,
		Args: someRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkTimeout(timeout, true); err != nil {
				return err
			}
			ids, err := rc.runIDs(args)
			if err != nil {
				return err
			}
			ctx, cancel := within(cmd.Context(), timeout)
			defer cancel()
			all := func(one func(id string) error) error {
				var problems []error
				for _, id := range ids {
					if err := one(id); err != nil {
						problems = append(problems, err)
					}
				}
				return joinRuns(problems)
			}
			if c, err := rc.client(); c != nil || err != nil {
				return orBy(err, func() error {
					return all(func(id string) error { return rc.waitBy(ctx, c, id) })
				})
			}
			err = rc.with(ctx, func(e *stet.Engine, _ store.Store) error {
				return all(func(id string) error { return rc.wait(ctx, e, id) })
			})
			return inTime(err, "the store has not been read in time")
		},
	}
	timeoutFlag(cmd, &timeout)
	return cmd
}

func timeoutFlag(cmd *cobra.Command, timeout *time.Duration) {
	cmd.Flags().DurationVar(timeout, "timeout", 0, "give up after this long; 0: never")
}

// within ends the context after the timeout; 0 is never.
func within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// inTime returns an error with the text in place of one that says that the time is over.
func inTime(err error, what string) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New(what)
	}
	return err
}

// wait prints the result of a run once it has ended.
func (rc runCommands) wait(ctx context.Context, e *stet.Engine, id string) error {
	info, err := e.Runs().Wait(ctx, id)
	if err != nil {
		return inTime(err, fmt.Sprintf("run %q has not ended in time", id))
	}
	switch {
	case rc.output == formJSON:
		err = rc.json(api.RunOf(info))
	case rc.output == formIDs:
		err = rc.id(info.ID)
	case info.Status == store.Succeeded:
		result := api.Value(info.Output.Bytes())
		if result == nil {
			result = []byte("null")
		}
		err = rc.printer.value(result)
	}
	if err == nil && info.Err != nil {
		err = unsuccessfulError{info.Err}
	}
	return err
}
