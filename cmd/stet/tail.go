package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
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
			err := rc.with(ctx, func(e *stet.Engine, _ store.Store) error { return rc.tail(ctx, e, args[0], args[1], &f) })
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
func (rc runCommands) tail(ctx context.Context, e *stet.Engine, id, name string, f *tailFlags) error {
	known, err := rc.shows(ctx, e, id, name, f.value)
	if err != nil {
		return err
	}
	switch {
	case f.value && f.noFollow:
		content, set, err := stet.Value[json.RawMessage](name).Get(ctx, e, id)
		if err == nil && set {
			err = rc.printer.value(content)
		}
		return err
	case f.value:
		for content, err := range stet.Value[json.RawMessage](name).Watch(ctx, e, id) {
			if err != nil {
				return err
			}
			if err := rc.printer.value(content); err != nil {
				return err
			}
		}
		return nil
	}
	items := e.Runs().Tail(ctx, id, name, f.after)
	if f.noFollow {
		items = until(items, known)
		if f.after >= known {
			return nil
		}
	}
	for item, err := range items {
		if err != nil {
			return err
		}
		if err := rc.printItem(&item); err != nil {
			return err
		}
	}
	return nil
}

// shows returns the number of the last item, or how often the value was set, or 0 if
// there is none yet. It is an error if the run has ended without one.
func (rc runCommands) shows(ctx context.Context, e *stet.Engine, id, name string, value bool) (int64, error) {
	info, err := e.Runs().Info(ctx, id) // before the feeds: if it has ended here, they are complete
	if err != nil {
		return 0, err
	}
	feeds, err := e.Runs().Feeds(ctx, id)
	if err != nil {
		return 0, err
	}
	var others []string
	other := false // of the name there is the other one
	for i := range feeds {
		f := &feeds[i]
		switch {
		case f.Name == name && f.Stream != value:
			return f.Last, nil
		case f.Name == name:
			other = true
		case f.Stream != value:
			others = append(others, f.Name)
		}
	}
	what, hint := "stream", "there is a value of that name: add --value"
	if value {
		what, hint = "value", "there is a stream of that name: leave --value out"
	}
	if !other {
		hint = fmt.Sprintf("its %ss: %s", what, cmp.Or(strings.Join(others, ", "), "none"))
	}
	if !info.Status.Terminal() {
		rc.say("run %s has no %s %s yet; %s", printable(id), what, printable(name), printable(hint))
		return 0, nil
	}
	return 0, hintedError{fmt.Errorf("run %q has ended without a %s %q: %w", id, what, name, stet.ErrNotFound), hint}
}

// rawItems are the items of a stream, ended by an error.
type rawItems = iter.Seq2[stet.StreamItem[stet.RawValue], error]

// until ends a sequence of items behind a position.
func until(items rawItems, last int64) rawItems {
	return func(yield func(stet.StreamItem[stet.RawValue], error) bool) {
		for item, err := range items {
			if !yield(item, err) || item.Position >= last {
				return
			}
		}
	}
}

func (rc runCommands) printItem(item *stet.StreamItem[stet.RawValue]) error {
	var value json.RawMessage
	if err := item.Value.Decode(&value); err != nil {
		return fmt.Errorf("item %d: %w", item.Position, err)
	}
	if item.Skipped > 0 && rc.output != formJSON {
		rc.say("%d items before position %d are gone: the stream keeps only its newest", item.Skipped, item.Position)
	}
	switch {
	case rc.output == formJSON:
		return rc.json(api.StreamItemOf(item))
	case item.Again:
		rc.say("step %s is executed again at %s (attempt %d): what it said before may come again",
			printable(item.Location), item.At.Format(time.RFC3339), item.Attempt)
		return nil
	case item.Rewound:
		rc.say("the run was rewound at %s", item.At.Format(time.RFC3339))
		return nil
	}
	return rc.printer.value(value)
}
