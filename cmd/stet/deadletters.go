package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/store"
)

func (dc deadLetterCommands) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "deadletters",
		Aliases: []string{"deadletter"},
		Short:   "list, send again and remove messages that no run has received",
		Long: `Dead letters are items that were accepted for a run and will not be received any more,
because the run has ended or has continued as new, or because they do not decode into the
type that its code has for them. They are kept as long as the
run is, unless its workflow discards them.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("expected ls, replay or rm, found %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(dc.listCommand(), dc.replayCommand(), dc.removeCommand())
	return cmd
}

func (dc deadLetterCommands) listCommand() *cobra.Command {
	var filter store.DeadFilter
	cmd := &cobra.Command{
		Use:   "ls [RUN...]",
		Short: "list dead letters, newest first; of these runs, or of all",
		RunE: func(cmd *cobra.Command, args []string) error {
			filter.RunIDs, filter.Values = args, dc.output != formIDs
			return dc.reading(cmd.Context(), func(from side) error {
				page, err := from.letters(cmd.Context(), filter)
				if err != nil {
					return err
				}
				return dc.printLetters(page.Letters, page.Next)
			})
		},
	}
	cmd.Flags().StringSliceVar(&filter.Workflows, "workflow", nil, "of runs of these `workflows`")
	cmd.Flags().StringSliceVar(&filter.Names, "name", nil, "messages with these `names`")
	cmd.Flags().IntVar(&filter.Limit, "limit", store.DefaultPage,
		fmt.Sprintf("`number` of letters at most, up to %d", store.MaxPage))
	cmd.Flags().StringVar(&filter.Cursor, "cursor", "", "begin where a former page has ended; it printed the `text`")
	return cmd
}

// printLetters prints dead letters; in the form ids their numbers.
func (dc deadLetterCommands) printLetters(letters []*api.Letter, next string) error {
	g := &grid{headers: []string{"NUMBER", "KIND", "NAME", "RUN", "WORKFLOW", "STATUS", "SENT", "SIZE", "VALUE", "REASON"}}
	for _, v := range letters {
		var err error
		switch dc.output {
		case formIDs:
			_, err = fmt.Fprintln(dc.out, v.Number)
		case formJSON:
			err = dc.json(v)
		default:
			value := string(v.Value)
			if v.Error != nil {
				value = v.Error.Message
			}
			g.add(fmt.Sprint(v.Number), v.Kind, printable(v.Name), printable(v.Run), printable(v.Workflow), v.Status.String(),
				moment(store.TimeOf(v.Sent)), fmt.Sprint(v.Size), short(value, 60), short(printable(v.Reason), 120))
		}
		if err != nil {
			return err
		}
	}
	if dc.output == formTable {
		if err := dc.print(g); err != nil {
			return err
		}
	}
	if next != "" {
		dc.say("there are more: --cursor %s", next)
	}
	return nil
}

func (dc deadLetterCommands) replayCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "replay NUMBER...",
		Short: "send dead letters again, to the same run or another, and remove them",
		Long: `A message is sent again, to the run that it was for or to another one (--to). What assigns a
promise goes to the promise at the same location of the run. An event of a consumed topic
is published again, without --to. Other letters are of use at one place only.`,
		Args: someLetters,
		RunE: func(cmd *cobra.Command, args []string) error {
			return dc.eachLetter(args, func(e *stet.Engine, number store.ItemNo) error {
				return e.DeadLetters().Replay(cmd.Context(), number, to, stet.Act{})
			}, func(c *client.Client, number store.ItemNo) error {
				return c.ReplayDeadLetter(cmd.Context(), number, api.Replay{Run: to})
			}, cmd)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`ID` of the run that gets them; default: the run of the letter")
	return cmd
}

func (dc deadLetterCommands) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NUMBER...",
		Short: "remove dead letters for good",
		Args:  someLetters,
		RunE: func(cmd *cobra.Command, args []string) error {
			return dc.eachLetter(args, func(e *stet.Engine, number store.ItemNo) error {
				n, err := e.DeadLetters().Remove(cmd.Context(), stet.Act{}, number)
				if err == nil && n == 0 {
					err = fmt.Errorf("dead letter %d: %w", number, stet.ErrNotFound)
				}
				return err
			}, func(c *client.Client, number store.ItemNo) error {
				return c.RemoveDeadLetter(cmd.Context(), number, "")
			}, cmd)
		},
	}
}

// someLetters expects the numbers of dead letters, or - for standard input.
func someLetters(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage(errors.New("expected the numbers of dead letters, as stet deadletters ls prints them, " +
			"or - to read them from standard input"))
	}
	return nil
}

// eachLetter calls fn for the numbers in the order in which they are given, and goes
// on after an error.
func (dc deadLetterCommands) eachLetter(
	args []string, fn func(*stet.Engine, store.ItemNo) error, by func(*client.Client, store.ItemNo) error,
	cmd *cobra.Command,
) error {
	texts, err := dc.runIDs(args)
	if err != nil {
		return err
	}
	numbers := make([]store.ItemNo, len(texts))
	for i, text := range texts {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return usage(fmt.Errorf("expected the number of a dead letter, found %q", text))
		}
		numbers[i] = store.ItemNo(n)
	}
	each := func(fn func(store.ItemNo) error) error {
		var problems []error
		for _, number := range numbers {
			err := fn(number)
			if errors.Is(err, stet.ErrNotFound) {
				err = hintedError{err, "stet deadletters ls lists the letters, stet ls the runs"}
			}
			if err != nil {
				problems = append(problems, err)
			}
		}
		return joinRuns(problems)
	}
	if c, err := dc.client(); c != nil || err != nil {
		return orBy(err, func() error { return each(func(n store.ItemNo) error { return by(c, n) }) })
	}
	return dc.with(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
		return each(func(n store.ItemNo) error { return fn(e, n) })
	})
}
