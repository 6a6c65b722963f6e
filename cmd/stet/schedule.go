package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/store"
)

func (sc scheduleCommands) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "schedule",
		Aliases: []string{"schedules"},
		Short:   "create, list and control schedules, which start runs repeatedly",
		Long: `A schedule starts runs of a workflow, by cron in a time zone or at an interval.
Each of its instants is started once, or skipped for a reason that stet schedule
show prints. Its runs have the IDs NAME/INSTANT, and the tag stet.schedule=NAME.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("expected create, ls, show, pause, resume, trigger, backfill or delete, found %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(sc.createCommand(), sc.listCommand(), sc.showCommand(), sc.pauseCommand(),
		sc.resumeCommand(), sc.triggerCommand(), sc.backfillCommand(), sc.deleteCommand())
	return cmd
}

func (sc scheduleCommands) createCommand() *cobra.Command {
	var s stet.Schedule
	var overlap, catchUp string
	var tags, headers map[string]string
	var replace bool
	var queue stet.OnQueue
	var policy policyFlags
	var act stet.Act
	cmd := &cobra.Command{
		Use:   "create NAME WORKFLOW [INPUT]",
		Short: "create a schedule; INPUT is JSON, - reads it from standard input",
		Long: `Creates a schedule that starts runs of a workflow with the input, which is JSON;
without it the input is null. It has either --cron, with --zone, or --every:

  stet schedule create nightly report '"sales"' --cron '0 3 * * *' --zone Europe/Berlin
  stet schedule create poll sync --every 15m --overlap buffer-one

If there is a schedule of the name with other settings, that is an error, unless
--replace changes it.`,
		Args: between(2, "NAME", "WORKFLOW", "INPUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			input, err := sc.jsonArgument(args, 2)
			if err != nil {
				return err
			}
			if err := s.Overlap.UnmarshalText([]byte(overlap)); err != nil {
				return usage(fmt.Errorf("--overlap: %w", err))
			}
			if s.CatchUp = stet.None; catchUp != "none" {
				if s.CatchUp, err = time.ParseDuration(catchUp); err != nil {
					return usage(fmt.Errorf("--catch-up: expected a duration like 90s or 6h, or none, found %q", catchUp))
				}
			}
			s.Tags, s.Headers = tags, headers
			options := []stet.ScheduleOption{stet.UntilCarriedOut(), act}
			if !replace {
				options = append(options, stet.RefuseExisting)
			}
			if queue != (stet.OnQueue{}) {
				if queue.Name == "" {
					return usage(errors.New("--queue-key and --priority are for runs on a queue: expected --queue, found none"))
				}
				options = append(options, queue)
			}
			own, err := policy.options()
			if err != nil {
				return err
			}
			for _, o := range own {
				options = append(options, o)
			}
			w := stet.Ref[json.RawMessage, json.RawMessage](args[1])
			return sc.scheduling(cmd, func(ctx context.Context, e *stet.Engine) error {
				return w.Schedule(ctx, e, args[0], input, s, options...)
			}, func(ctx context.Context, c *client.Client) error {
				own, err := policy.policy()
				if err != nil {
					return err
				}
				set := api.SetSchedule{
					Workflow: args[1], Cron: s.Cron, Zone: s.Zone, EveryMS: s.Every.Milliseconds(), OffsetMS: s.Offset.Milliseconds(),
					Overlap: &s.Overlap, CatchUpMS: inMillis(s.CatchUp), Input: input, Tags: tags, Headers: headers,
					Policy: api.PolicyOf(own), Paused: s.Paused, Refuse: !replace, Reason: act.Why,
				}
				if queue.Name != "" {
					set.Queue = &api.QueuePlace{Name: queue.Name, Key: queue.Key, Priority: queue.Priority}
				}
				return c.OnSchedule(args[0]).Set(ctx, set)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.Cron, "cron", "", "when, as five `fields`, six with seconds first, or @daily …")
	flags.StringVar(&s.Zone, "zone", "", "time `zone` of --cron, like Europe/Berlin; default: UTC")
	flags.DurationVar(&s.Every, "every", 0, "when, as an interval: at the multiples of it since 1970, UTC")
	flags.DurationVar(&s.Offset, "offset", 0, "this much later than --every says")
	flags.StringVar(&overlap, "overlap", stet.SkipOverlap.String(),
		"while a run has not ended: `policy` skip, buffer-one, allow or cancel-previous")
	flags.StringVar(&catchUp, "catch-up", "1h", "how late an instant may be started; none: however late")
	flags.StringToStringVar(&tags, "tag", nil, "a tag of the runs, as `KEY=VALUE`")
	flags.StringToStringVar(&headers, "header", nil, "a header of the runs, as `KEY=VALUE`")
	flags.StringVar(&queue.Name, "queue", "", "the `name` of the queue that the runs wait in for a permit")
	flags.StringVar(&queue.Key, "queue-key", "", "on whose behalf the runs are: `keys` of a queue take turns")
	flags.IntVar(&queue.Priority, "priority", 0, "runs of a higher priority get their permit before others")
	policy.add(cmd)
	actFlags(cmd, &act)
	flags.BoolVar(&s.Paused, "paused", false, "begin paused")
	flags.BoolVar(&replace, "replace", false, "change the schedule of the name, if there is one")
	return cmd
}

// actFlags adds the flags that say who asks, and why.
func actFlags(cmd *cobra.Command, act *stet.Act) {
	whoFlag(cmd, &act.By)
	cmd.Flags().StringVar(&act.Why, "reason", "", "why, for people")
}

// scheduleTimeout is how long a request waits for the owner's decision.
const scheduleTimeout = 10 * time.Second

// scheduling calls fn with an engine that carries requests out if no application works
// on the store.
func (sc scheduleCommands) scheduling(
	cmd *cobra.Command, fn func(context.Context, *stet.Engine) error, by func(context.Context, *client.Client) error,
) error {
	if who, err := cmd.Flags().GetString("by"); err == nil {
		if err := checkWho(cmd, who); err != nil {
			return err
		}
	}
	decide := func(fn func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), scheduleTimeout)
		defer cancel()
		err := fn(ctx)
		switch {
		case errors.Is(err, stet.ErrPending):
			return hintedError{err, "the request stands until an application works on the store"}
		case isAny(err, stet.ErrRefused):
			return conflictError{err}
		case isAny(err, stet.ErrExists):
			return hintedError{err, "--replace changes it"}
		}
		return err
	}
	if c, err := sc.client(); c != nil || err != nil {
		return orBy(errors.Join(err, refuseLocal(cmd)), func() error {
			return decide(func(ctx context.Context) error { return by(ctx, c) })
		})
	}
	return sc.deciding(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
		return decide(func(ctx context.Context) error { return fn(ctx, e) })
	})
}

func (sc scheduleCommands) pauseCommand() *cobra.Command {
	var act stet.Act
	cmd := &cobra.Command{
		Use: "pause NAME", Short: "skip the instants of a schedule until it is resumed; runs continue", Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sc.scheduling(cmd, func(ctx context.Context, e *stet.Engine) error {
				return e.Schedules().Pause(ctx, args[0], act)
			}, func(ctx context.Context, c *client.Client) error { return c.OnSchedule(args[0]).Pause(ctx, act.Why) })
		},
	}
	actFlags(cmd, &act)
	return cmd
}

func (sc scheduleCommands) resumeCommand() *cobra.Command {
	var act stet.Act
	cmd := &cobra.Command{
		Use: "resume NAME", Short: "resume a paused schedule; the instants that have passed are skipped",
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sc.scheduling(cmd, func(ctx context.Context, e *stet.Engine) error {
				return e.Schedules().Resume(ctx, args[0], act)
			}, func(ctx context.Context, c *client.Client) error { return c.OnSchedule(args[0]).Resume(ctx, act.Why) })
		},
	}
	actFlags(cmd, &act)
	return cmd
}

func (sc scheduleCommands) triggerCommand() *cobra.Command {
	var act stet.Act
	cmd := &cobra.Command{
		Use: "trigger NAME", Short: "start a run now and print its ID", Args: exactly("NAME"),
		Long: `Starts a run now and prints its ID, also if the schedule is paused. If a run has
not ended, the overlap policy decides: the run begins later, or it is refused.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			told := func(id string, err error) error {
				switch {
				case err != nil:
					return err
				case sc.output == formJSON:
					return sc.json(map[string]string{"id": id})
				}
				return sc.id(id)
			}
			return sc.scheduling(cmd, func(ctx context.Context, e *stet.Engine) error {
				return told(e.Schedules().Trigger(ctx, args[0], act))
			}, func(ctx context.Context, c *client.Client) error {
				return told(c.OnSchedule(args[0]).Trigger(ctx, act.Why))
			})
		},
	}
	actFlags(cmd, &act)
	return cmd
}

func (sc scheduleCommands) backfillCommand() *cobra.Command {
	var from, to string
	var act stet.Act
	cmd := &cobra.Command{
		Use: "backfill NAME --from TIME --to TIME", Short: "start the runs of instants that have passed",
		Args: exactly("NAME"),
		Long: `Starts the runs of the instants from one time on and before another: all at once if
runs may overlap, otherwise one after another. An instant whose run exists is not
started again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var times [2]time.Time
			for i, text := range []string{from, to} {
				at, err := time.Parse(time.RFC3339, text)
				if err != nil {
					return usage(fmt.Errorf("--from and --to: expected times like 2026-01-31T12:00:00Z, found %q", text))
				}
				times[i] = at
			}
			return sc.scheduling(cmd, func(ctx context.Context, e *stet.Engine) error {
				return e.Schedules().Backfill(ctx, args[0], times[0], times[1], act)
			}, func(ctx context.Context, c *client.Client) error {
				return c.OnSchedule(args[0]).Backfill(ctx, api.Backfill{From: times[0], To: times[1], Reason: act.Why})
			})
		},
	}
	actFlags(cmd, &act)
	cmd.Flags().StringVar(&from, "from", "", "the `time` of the first instant, like 2026-01-31T12:00:00Z")
	cmd.Flags().StringVar(&to, "to", "", "the `time` before which the last instant is")
	return cmd
}

func (sc scheduleCommands) deleteCommand() *cobra.Command {
	var act stet.Act
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "remove a schedule; its runs continue", Aliases: []string{"rm"}, Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sc.scheduling(cmd, func(ctx context.Context, e *stet.Engine) error {
				return e.Schedules().Delete(ctx, args[0], act)
			}, func(ctx context.Context, c *client.Client) error { return c.OnSchedule(args[0]).Delete(ctx, act.Why) })
		},
	}
	actFlags(cmd, &act)
	return cmd
}

// when says when a schedule is due.
func when(i *api.Schedule) string {
	s := stet.Schedule{Cron: i.Cron, Zone: i.Zone}
	s.Every, s.Offset = time.Duration(i.EveryMS)*time.Millisecond, time.Duration(i.OffsetMS)*time.Millisecond
	return printable(s.When())
}

// stateOf says in words what a schedule is doing.
func stateOf(i *api.Schedule) string {
	switch {
	case i.Stalled != "":
		return "stalled"
	case i.Lacks != "":
		return "unserved"
	case i.Paused:
		return "paused"
	case len(i.Running) > 0:
		return fmt.Sprintf("%d running", len(i.Running))
	}
	return "waits"
}

func (sc scheduleCommands) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "list schedules, the newest first", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sc.reading(cmd.Context(), func(from side) error {
				list, err := from.schedules(cmd.Context())
				if err != nil {
					return err
				}
				g := &grid{headers: []string{"NAME", "WORKFLOW", "WHEN", "OVERLAP", "STATE", "NEXT", "STARTED", "SKIPPED"}}
				for _, i := range list {
					switch sc.output {
					case formIDs:
						err = sc.id(i.Name)
					case formJSON:
						err = sc.json(i)
					default:
						next := "-"
						if len(i.Next) > 0 {
							next = moment(store.TimeOf(i.Next[0]))
						}
						g.add(printable(i.Name), printable(i.Workflow), when(i), i.Overlap.String(), stateOf(i), next,
							fmt.Sprint(i.Started), fmt.Sprint(i.Skipped))
					}
					if err != nil {
						return err
					}
				}
				if sc.output == formTable {
					return sc.print(g)
				}
				return nil
			})
		},
	}
}

func (sc scheduleCommands) showCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "show NAME", Short: "show a schedule: its next instants, and what became of the last ones",
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usage(fmt.Errorf("--limit: expected 0 or more, found %d", limit))
			}
			return sc.reading(cmd.Context(), func(from side) error {
				i, err := from.schedule(cmd.Context(), args[0])
				switch {
				case err != nil:
					return err
				case sc.output == formIDs:
					for _, id := range i.Running {
						if err := sc.id(id); err != nil {
							return err
						}
					}
					return nil
				}
				i.Past = i.Past[max(len(i.Past)-limit, 0):]
				if sc.output == formJSON {
					return sc.json(i)
				}
				return sc.show(i)
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "`number` of the last decisions that are shown, at most 1,000")
	return cmd
}

// showSchedule prints a schedule for people.
func (sc scheduleCommands) show(i *api.Schedule) error {
	at := func(t time.Time) string { return moment(store.TimeOf(t)) }
	g := &grid{}
	g.add("schedule", printable(i.Name))
	g.add("workflow", printable(i.Workflow))
	g.add("when", when(i))
	g.add("overlap", i.Overlap.String())
	catchUp := "however late"
	if i.CatchUpMS != nil {
		catchUp = (time.Duration(*i.CatchUpMS) * time.Millisecond).String()
	}
	g.add("catch-up", catchUp)
	if q := i.Queue; q != nil {
		on := stet.OnQueue{Name: q.Name, Key: q.Key, Priority: q.Priority}
		g.add("queue", printable((&stet.QueuePlace{OnQueue: on}).String()))
	}
	if text := i.Policy.RunPolicy().String(); text != "" {
		g.add("policy", text)
	}
	g.add("input", short(string(i.Input), 60))
	if i.PausedAt != nil {
		reason := ""
		if i.Reason != "" {
			reason = ": " + printable(i.Reason)
		}
		g.add("paused", at(*i.PausedAt)+reason)
	}
	if i.Stalled != "" {
		g.add("stalled", short(i.Stalled, 200))
	}
	if i.Lacks != "" {
		g.add("unserved", short(i.Lacks, 200))
	}
	g.add("started", fmt.Sprint(i.Started))
	g.add("skipped", fmt.Sprint(i.Skipped))
	for _, r := range i.Running {
		g.add("running", printable(r))
	}
	if i.Buffered != nil {
		g.add("buffered", at(*i.Buffered))
	}
	if i.Backfills > 0 {
		g.add("backfills", fmt.Sprint(i.Backfills))
	}
	for _, next := range i.Next {
		g.add("next", at(next))
	}
	if err := sc.print(g); err != nil || len(i.Past) == 0 {
		return err
	}
	past := &grid{headers: []string{"INSTANT", "TO", "COUNT", "BECAME"}}
	for _, d := range i.Past {
		became, to := "skipped: "+d.Reason, ""
		if d.Run != "" {
			became = "run " + printable(d.Run)
		}
		if d.Count > 1 {
			to = at(d.To)
		}
		past.add(at(d.From), to, fmt.Sprint(d.Count), became)
	}
	if _, err := fmt.Fprintln(sc.out); err != nil {
		return err
	}
	return sc.print(past)
}
