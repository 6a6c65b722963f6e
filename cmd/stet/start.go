package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/sqlite"
)

func (a *app) startCommand() *cobra.Command {
	var id, at, existing string
	var in time.Duration
	var wait bool
	cmd := &cobra.Command{
		Use:   "start WORKFLOW [INPUT]",
		Short: "start a run; INPUT is JSON, - reads it from standard input",
		Args:  between(1, "WORKFLOW", "INPUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			input, err := a.jsonArgument(args, 1)
			if err != nil {
				return err
			}
			options, err := startOptions(id, at, in, existing)
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), func(e *stet.Engine, s *sqlite.Store) error {
				run, err := stet.Ref[json.RawMessage, json.RawMessage](args[0]).Start(cmd.Context(), e, input, options...)
				if err != nil {
					return err
				}
				if wait {
					return a.wait(cmd.Context(), e, run.ID())
				}
				if a.output == "json" {
					return a.json(map[string]string{"id": run.ID()})
				}
				_, err = fmt.Fprintln(a.out, run.ID())
				return err
			})
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "the run's `ID`; default: a new one")
	cmd.Flags().StringVar(&at, "at", "", "begin no earlier than this `time` (RFC 3339)")
	cmd.Flags().DurationVar(&in, "in", 0, "begin no earlier than this much later")
	cmd.Flags().StringVar(&existing, "existing", "use", "if the ID exists: `policy` use, refuse or replace-failed")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end, like stet wait")
	return cmd
}

func startOptions(id, at string, in time.Duration, existing string) ([]stet.StartOption, error) {
	var options []stet.StartOption
	if id != "" {
		options = append(options, stet.ID(id))
	}
	if at != "" {
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return nil, usage(fmt.Errorf("--at: expected a time like 2026-01-31T12:00:00Z, found %q", at))
		}
		options = append(options, stet.StartAt(t))
	}
	if in != 0 {
		options = append(options, stet.StartAfter(in))
	}
	switch existing {
	case "use":
	case "refuse":
		options = append(options, stet.RefuseExisting)
	case "replace-failed":
		options = append(options, stet.ReplaceFailed)
	default:
		return nil, usage(fmt.Errorf("--existing: expected use, refuse or replace-failed, found %q", existing))
	}
	return options, nil
}

// jsonArgument returns the argument at the index as JSON; - reads it from
// standard input, and none is null.
func (a *app) jsonArgument(args []string, index int) (json.RawMessage, error) {
	if len(args) <= index {
		return json.RawMessage("null"), nil
	}
	data := []byte(args[index])
	if args[index] == "-" {
		var err error
		if data, err = io.ReadAll(a.in); err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
	}
	var value json.RawMessage // a number may be longer than any type of Go
	if err := json.Unmarshal(data, &value); err != nil {
		var syntax *json.SyntaxError
		where := ""
		if errors.As(err, &syntax) {
			where = fmt.Sprintf(" at byte %d", syntax.Offset)
		}
		return nil, usage(fmt.Errorf("expected JSON, found %.60q: %v%s; a text needs quotes of its own: '\"text\"'", data, err, where))
	}
	return value, nil
}

func (a *app) sendCommand() *cobra.Command {
	var key, query string
	var yes bool
	cmd := &cobra.Command{
		Use:   "send RUN NAME [VALUE]",
		Short: "send a message to a run; VALUE is JSON, - reads it from standard input",
		Long:  "Sends a message to a run. With --query instead of RUN it goes to all live runs that match.",
		Args: func(cmd *cobra.Command, args []string) error {
			if query != "" {
				return between(1, "NAME", "VALUE")(cmd, args)
			}
			return between(2, "RUN", "NAME", "VALUE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var ids []string
			if query == "" {
				ids, args = args[:1], args[1:]
			}
			value, err := a.jsonArgument(args, 1)
			if err != nil {
				return err
			}
			var options []stet.SendOption
			if key != "" {
				options = append(options, stet.SendKey(key))
			}
			message := stet.Message[json.RawMessage](args[0])
			return a.with(cmd.Context(), func(e *stet.Engine, s *sqlite.Store) error {
				return a.each(cmd.Context(), e, bulk{ids: ids, query: query, yes: yes, what: "send to", live: true}, func(id string) error {
					return message.Send(cmd.Context(), e, id, value, options...)
				})
			})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "idempotency `key`: equal keys to one run give one delivery")
	bulkFlags(cmd, &query, &yes)
	return cmd
}

func (a *app) resolveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "resolve TOKEN [VALUE]",
		Short: "assign a value to a promise; VALUE is JSON, - reads it from standard input",
		Args:  between(1, "TOKEN", "VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			value, err := a.jsonArgument(args, 1)
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), func(e *stet.Engine, _ *sqlite.Store) error { return e.Resolve(cmd.Context(), args[0], value) })
		},
	}
}

func (a *app) rejectCommand() *cobra.Command {
	var message string
	cmd := &cobra.Command{
		Use:   "reject TOKEN",
		Short: "assign a failure to a promise",
		Args:  exactly("TOKEN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(e *stet.Engine, _ *sqlite.Store) error {
				return e.Reject(cmd.Context(), args[0], errors.New(message))
			})
		},
	}
	cmd.Flags().StringVarP(&message, "message", "m", "rejected", "`text` of the error that the workflow gets")
	return cmd
}
