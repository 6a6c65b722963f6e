package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// startFlags are the flags of start.
type startFlags struct {
	id, at, existing string
	in               time.Duration
	wait, force      bool
	tags, headers    map[string]string
	messages         []string
	queue            stet.OnQueue
	policy           policyFlags
}

func (rc runCommands) startCommand() *cobra.Command {
	var f startFlags
	cmd := &cobra.Command{
		Use:   "start WORKFLOW [INPUT]",
		Short: "start a run; INPUT is JSON, - reads it from standard input",
		Long: `Starts a run and prints its ID. INPUT is JSON, - reads it from standard input;
without it the input is null.

An application must have registered the workflow on this store at some time; the
run begins when an application with its code works on the store.`,
		Args: between(1, "WORKFLOW", "INPUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			input, err := rc.jsonArgument(args, 1)
			if err != nil {
				return err
			}
			if c, err := rc.client(); c != nil || err != nil {
				return orBy(err, func() error { return rc.startBy(cmd.Context(), c, args[0], input, &f) })
			}
			return rc.start(cmd.Context(), args[0], input, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.id, "id", "", "the run's `ID`; default: a new one")
	flags.StringVar(&f.at, "at", "", "begin no earlier than this `time`, like 2026-01-31T12:00:00Z")
	flags.DurationVar(&f.in, "in", 0, "begin no earlier than this much later, like 90s or 2h30m")
	flags.StringVar(&f.existing, "existing", "use",
		"if the ID exists: `policy` use, refuse, replace-failed or replace-ended")
	flags.StringArrayVar(&f.messages, "message", nil,
		"a first message, as `NAME=JSON`; it goes to the run that --existing uses, too")
	flags.StringToStringVar(&f.tags, "tag", nil, "a tag of the run, as `KEY=VALUE`")
	flags.StringToStringVar(&f.headers, "header", nil, "a header of the run, as `KEY=VALUE`")
	flags.StringVar(&f.queue.Name, "queue", "", "the `name` of the queue that the run waits in for a permit")
	flags.StringVar(&f.queue.Key, "queue-key", "", "on whose behalf the run is: `keys` of a queue take turns")
	flags.IntVar(&f.queue.Priority, "priority", 0, "runs of a higher priority get their permit before others")
	f.policy.add(cmd)
	flags.BoolVar(&f.wait, "wait", false, "wait for the end, like stet wait")
	flags.BoolVar(&f.force, "force", false, "start it although no application has registered the workflow yet")
	return cmd
}

func (rc runCommands) start(ctx context.Context, workflow string, input json.RawMessage, f *startFlags) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	definition := stet.Ref[json.RawMessage, json.RawMessage](workflow)
	var registered []stet.Definition
	if f.force {
		definition = stet.Define(workflow, notHere)
		registered = append(registered, definition)
	}
	return rc.with(ctx, func(e *stet.Engine, s store.Store) error {
		run, err := definition.Start(ctx, e, input, options...)
		if err != nil {
			return err
		}
		if err := rc.noteUnserved(ctx, storeSide{rc.app, e, s}, workflow); err != nil {
			return err
		}
		switch {
		case f.wait:
			return rc.wait(ctx, e, run.ID())
		case rc.output == formJSON:
			return rc.json(map[string]string{"id": run.ID()})
		}
		err = rc.id(run.ID())
		return err
	}, registered...)
}

// notHere stands for the code of a workflow, which only the application has. The engine
// of start executes nothing.
func notHere(stet.Context, json.RawMessage) (json.RawMessage, error) {
	return nil, errors.New("the code is not in this process")
}

func (f *startFlags) options() ([]stet.StartOption, error) {
	var options []stet.StartOption
	if f.id != "" {
		options = append(options, stet.ID(f.id))
	}
	if f.at != "" {
		t, err := time.Parse(time.RFC3339, f.at)
		switch {
		case err != nil:
			return nil, usage(fmt.Errorf("--at: expected a time like 2026-01-31T12:00:00Z, found %q", f.at))
		case f.in != 0:
			return nil, usage(errors.New("expected one of --at and --in, found both"))
		}
		options = append(options, stet.StartAt(t))
	}
	if f.in != 0 {
		options = append(options, stet.StartAfter(f.in))
	}
	if len(f.tags) > 0 {
		options = append(options, stet.Tags(f.tags))
	}
	if len(f.headers) > 0 {
		options = append(options, stet.Headers(f.headers))
	}
	if f.queue != (stet.OnQueue{}) {
		if f.queue.Name == "" {
			return nil, usage(errors.New("--queue-key and --priority are for a run on a queue: expected --queue, found none"))
		}
		options = append(options, f.queue)
	}
	policy, err := f.policy.options()
	if err != nil {
		return nil, err
	}
	for _, o := range policy {
		options = append(options, o)
	}
	var existing stet.Existing
	if existing.UnmarshalText([]byte(f.existing)) != nil {
		return nil, usage(fmt.Errorf("--existing: expected use, refuse, replace-failed or replace-ended, found %q",
			f.existing))
	}
	options = append(options, existing)
	for _, text := range f.messages {
		name, value, _ := strings.Cut(text, "=")
		if value == "" {
			value = "null"
		}
		if !json.Valid([]byte(value)) {
			return nil, usage(fmt.Errorf("--message: expected NAME=JSON, found %.60q; a text needs quotes of its own: "+
				"'name=\"text\"'", text))
		}
		options = append(options, stet.FirstMessage(stet.Message[json.RawMessage](name), json.RawMessage(value)))
	}
	return options, nil
}

// noteUnserved prints a note if no process that works on the store has the workflow.
func (rc runCommands) noteUnserved(ctx context.Context, from side, workflow string) error {
	c, err := from.nodes(ctx)
	if err != nil {
		return err
	}
	if err := c.UnservedWorkflow(workflow); err != nil {
		rc.say("%s; the run begins when one does", err)
	}
	return nil
}
