package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
)

// tailFlags are the flags of tail.
type tailFlags struct {
	after    int64
	value    bool
	noFollow bool
	timeout  time.Duration
}

func (rc runCommands) tailCommand() *cobra.Command {
	var f tailFlags
	cmd := &cobra.Command{
		Use:   "tail RUN STREAM",
		Short: "print the items of a run's stream, and follow it",
		Long: `Prints the items of a stream, one per line as JSON, and follows it until the run has
ended. With --output json each line has the position and the time too; --after
continues behind a position. If the run was rewound, a step that has emitted items is
executed again, or the stream keeps only its newest items and others are gone, standard
error says where.

With --value the name is that of a value: its content is printed, and again
whenever it has changed.`,
		Args: exactly("RUN", "STREAM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(rc.checkNoIDs(), checkTimeout(f.timeout, true)); err != nil {
				return err
			}
			switch {
			case f.after < 0:
				return usage(fmt.Errorf("--after: expected a position of 0 or more, found %d", f.after))
			case f.value && cmd.Flags().Changed("after"):
				return usage(errors.New("expected one of --value and --after, found both"))
			}
			ctx, cancel := within(cmd.Context(), f.timeout)
			defer cancel()
			err := rc.reading(ctx, func(from side) error { return rc.tail(ctx, from, args[0], args[1], &f) })
			return inTime(err, "the run has not ended in time")
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&f.after, "after", 0, "begin behind this `position`")
	flags.BoolVar(&f.value, "value", false, "follow a value instead of a stream")
	flags.BoolVar(&f.noFollow, "no-follow", false, "end behind the present items")
	timeoutFlag(cmd, &f.timeout)
	return cmd
}

// tail prints a stream or a value.
func (rc runCommands) tail(ctx context.Context, from side, id, name string, f *tailFlags) error {
	after, set := f.after, int64(0)
	for first := true; ; first = false {
		run, err := from.run(ctx, id) // before what it shows: if it has ended here, that is complete
		if err != nil {
			return err
		}
		shown, err := from.shown(ctx, run)
		if err != nil {
			return err
		}
		value, stream := find(shown, name)
		if first {
			if err := rc.checkShown(run, shown, name, f.value); err != nil {
				return err
			}
		}
		switch {
		case f.value && value != nil && value.Set > set:
			set, err = value.Set, rc.printer.value(value.Value)
		case !f.value && stream != nil:
			after, err = rc.printItems(ctx, from, id, name, after, stream.Last, !f.noFollow)
		}
		if err != nil || f.noFollow || run.Status.Terminal() {
			return err
		}
		if err := from.changed(ctx); err != nil {
			return err
		}
	}
}

// find returns the value and the stream of a name; nil: there is none.
func find(shown *api.Shown, name string) (value *api.NamedValue, stream *api.Stream) {
	for i := range shown.Values {
		if shown.Values[i].Name == name {
			value = &shown.Values[i]
		}
	}
	for i := range shown.Streams {
		if shown.Streams[i].Name == name {
			stream = &shown.Streams[i]
		}
	}
	return value, stream
}

// checkShown says if a run does not show what is asked for. If it has ended, that is an error.
func (rc runCommands) checkShown(run *aRun, shown *api.Shown, name string, value bool) error {
	v, s := find(shown, name)
	if value && v != nil || !value && s != nil {
		return nil
	}
	what, hint, others := "stream", "there is a value of that name: add --value", []string{}
	for i := range shown.Streams {
		others = append(others, shown.Streams[i].Name)
	}
	if value {
		what, hint, others = "value", "there is a stream of that name: leave --value out", nil
		for i := range shown.Values {
			others = append(others, shown.Values[i].Name)
		}
	}
	if v == nil && s == nil {
		hint = fmt.Sprintf("its %ss: %s", what, cmp.Or(strings.Join(others, ", "), "none"))
	}
	if !run.Status.Terminal() {
		rc.say("run %s has no %s %s yet; %s", printable(run.ID), what, printable(name), printable(hint))
		return nil
	}
	return hintedError{fmt.Errorf("run %q has ended without a %s %q: %w", run.ID, what, name, stet.ErrNotFound), hint}
}

// printItems prints the items of a stream after a position, those that are there and, with
// more, those that come meanwhile. It returns the last position.
func (rc runCommands) printItems(
	ctx context.Context, from side, id, name string, after, last int64, more bool,
) (int64, error) {
	for more || after < last {
		items, err := from.items(ctx, id, name, after)
		if err != nil || len(items) == 0 {
			return after, err
		}
		for i := range items {
			if !more && items[i].Position > last {
				return after, nil
			}
			if err := rc.printItem(&items[i]); err != nil {
				return after, err
			}
			after = items[i].Position
		}
	}
	return after, nil
}

func (rc runCommands) printItem(item *api.StreamItem) error {
	if item.Skipped > 0 && rc.output != formJSON {
		rc.say("%d items before position %d are gone: the stream keeps only its newest", item.Skipped, item.Position)
	}
	switch {
	case rc.output == formJSON:
		return rc.json(item)
	case item.Again:
		rc.say("step %s is executed again at %s (attempt %d): what it said before may come again",
			printable(item.Location), item.At.Format(time.RFC3339), item.Attempt)
		return nil
	case item.Rewound:
		rc.say("the run was rewound at %s", item.At.Format(time.RFC3339))
		return nil
	}
	return rc.printer.value(item.Value)
}
