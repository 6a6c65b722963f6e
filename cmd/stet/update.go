package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

func (mc messageCommands) updateCommand() *cobra.Command {
	var key string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "update RUN NAME [VALUE]",
		Short: "send an update to a run and print its answer; VALUE is JSON, - reads it from standard input",
		Long: `Sends an update to a run, waits for the answer and prints it as JSON. VALUE is
JSON, - reads it from standard input; without it the value is null. The update is
durable at once: if there is no answer in time it stands, and with the same --key the
command can be repeated to wait for its answer.

The exit code is 4 if the run has rejected the update, and 5 if the run has ended
without an answer.`,
		Args: between(2, "RUN", "NAME", "VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(mc.checkNoIDs(), checkTimeout(timeout, true)); err != nil {
				return err
			}
			value, err := mc.jsonArgument(args, 2)
			if err != nil {
				return err
			}
			var options []stet.SendOption
			if cmd.Flags().Changed("key") {
				if key == "" {
					return usage(errors.New("--key: expected 1 to 255 bytes, found none"))
				}
				options = append(options, stet.SendKey(key))
			}
			ctx, cancel := within(cmd.Context(), timeout)
			defer cancel()
			if c, err := mc.client(); c != nil || err != nil {
				return orBy(err, func() error { return mc.updateBy(ctx, c, args, key, value) })
			}
			err = mc.with(ctx, func(e *stet.Engine, _ store.Store) error {
				return mc.update(ctx, e, args[0], args[1], value, options)
			})
			return inTime(err, "the update has not been sent in time")
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "idempotency `key`: equal keys to one run are one update")
	timeoutFlag(cmd, &timeout)
	return cmd
}

// update sends an update and prints the answer.
func (mc messageCommands) update(
	ctx context.Context, e *stet.Engine, id, name string, value json.RawMessage, options []stet.SendOption,
) error {
	raw, err := e.Runs().Update(ctx, id, name, value, options...)
	switch {
	case errors.Is(err, stet.ErrPending) && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("nobody has answered in time; update %q of run %q stands", name, id)
	case errors.Is(err, stet.ErrRefused):
		return conflictError{err}
	case errors.Is(err, stet.ErrUnanswered):
		return unsuccessfulError{err}
	case err != nil:
		return err
	}
	answer := json.RawMessage("null")
	if err := raw.Decode(&answer); err != nil {
		return err
	}
	if mc.output == formJSON {
		return mc.json(answer)
	}
	return mc.printer.value(answer)
}
