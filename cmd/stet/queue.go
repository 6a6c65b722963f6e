package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/store"
)

func (qc queueCommands) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "show and change queues: limits on how many runs execute",
		Long: `Queues limit how many of the runs that were started on them execute at a time, or
begin in a time: stet start --queue NAME. A run holds a permit of its queue from
before it begins until its end; it is queued until it has one. A step that uses a
queue holds one for each attempt.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		qc.createCommand(), qc.setCommand(), qc.listCommand(), qc.showCommand(), qc.tasksCommand(),
		qc.actCommand("reset", "take back what set has overridden: the declared settings count again", stet.Queues.Reset,
			client.OnQueue.Reset),
		qc.actCommand("pause", "grant no permits until the queue is resumed; runs that have one continue", stet.Queues.Pause,
			client.OnQueue.Pause),
		qc.actCommand("resume", "grant permits again", stet.Queues.Resume, client.OnQueue.Resume),
		qc.actCommand("delete", "delete a queue in which nothing waits or has a permit",
			stet.Queues.Delete, client.OnQueue.Delete),
	)
	return cmd
}

// queueFlags are the settings of a queue.
type queueFlags struct {
	stet.QueueSettings
	timeout     time.Duration
	who, reason string
}

// addAct adds the flags that say who makes a request, and why.
func (f *queueFlags) addAct(cmd *cobra.Command) {
	whoFlag(cmd, &f.who)
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for people")
}

func (f *queueFlags) act() stet.Act { return stet.Act{By: f.who, Why: f.reason} }

func (f *queueFlags) add(cmd *cobra.Command, creates bool) {
	flags := cmd.Flags()
	flags.IntVar(&f.Concurrency, "concurrency", 0, "how many runs have a permit at a time, at most; 0: no limit")
	flags.IntVar(&f.PerKey, "per-key", 0, "how many of these have one key, at most; 0: no limit")
	flags.IntVar(&f.Rate, "rate", 0, "how many permits are granted within --per, each with its cost, at most; 0: no limit")
	flags.IntVar(&f.RatePerKey, "rate-per-key", 0, "how many of these have one key, at most; 0: no limit")
	flags.DurationVar(&f.Per, "per", 0, "the time of --rate and --rate-per-key; default 1s")
	flags.BoolVar(&f.ReleaseWhileSuspended, "release-while-suspended", false,
		"suspended runs have no permit, and ask for a new one when they are woken")
	if creates {
		flags.StringVar(&f.Group, "group", "", "the `group` of nodes that execute the runs; default: default")
	}
	f.addTimeout(cmd)
}

func (f *queueFlags) addTimeout(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for a decision")
}

// over returns the present settings, changed by the flags that were given.
func (f *queueFlags) over(cmd *cobra.Command, old stet.QueueSettings) stet.QueueSettings {
	s, given := old, cmd.Flags().Changed
	if given("concurrency") {
		s.Concurrency = f.Concurrency
	}
	if given("per-key") {
		s.PerKey = f.PerKey
	}
	if given("rate") {
		s.Rate = f.Rate
	}
	if given("rate-per-key") {
		s.RatePerKey = f.RatePerKey
	}
	if s.Rate == 0 && s.RatePerKey == 0 {
		s.Per = 0
	}
	if given("per") {
		s.Per = f.Per
	}
	if given("release-while-suspended") {
		s.ReleaseWhileSuspended = f.ReleaseWhileSuspended
	}
	return s
}

// decide makes a request to a queue and waits for the decision.
func (qc queueCommands) decide(
	cmd *cobra.Command, timeout time.Duration, act string, ask func(context.Context, *stet.Engine) error,
	askBy func(context.Context, *client.Client) error,
) error {
	if err := errors.Join(qc.checkNoIDs(), checkTimeout(timeout, false)); err != nil {
		return err
	}
	decide := func(ask func(context.Context) error) error {
		wait, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		err := ask(wait)
		switch {
		case errors.Is(err, stet.ErrPending):
			return hintedError{fmt.Errorf("%s: nobody has decided within %s", act, timeout),
				"the request stands until an application works on the store"}
		case errors.Is(err, stet.ErrRefused):
			return conflictError{err}
		}
		return err
	}
	if c, err := qc.client(); c != nil || err != nil {
		return orBy(errors.Join(err, refuseLocal(cmd)), func() error {
			return decide(func(ctx context.Context) error { return askBy(ctx, c) })
		})
	}
	return qc.deciding(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
		return decide(func(ctx context.Context) error { return ask(ctx, e) })
	})
}

func (qc queueCommands) createCommand() *cobra.Command {
	var f queueFlags
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "declare a queue, as the code does by Queues.Create: make it, or change what was declared before",
		Args:  exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			say := func(ctx context.Context, from side) error {
				info, err := from.queue(ctx, args[0])
				if err == nil && info.Override != nil {
					qc.say("its settings are overridden %s; stet queue reset %s", sourceText(info.Override), args[0])
				}
				return err
			}
			if err := checkWho(cmd, f.who); err != nil {
				return err
			}
			return qc.decide(cmd, f.timeout, "create", func(ctx context.Context, e *stet.Engine) error {
				if err := e.Queues().Create(ctx, args[0], f.QueueSettings, f.act()); err != nil {
					return err
				}
				return say(ctx, storeSide{qc.app, e, e.Store()})
			}, func(ctx context.Context, c *client.Client) error {
				set := api.SetQueue{Limits: api.LimitsOf(&f.QueueSettings), Create: true, Reason: f.reason}
				if err := c.OnQueue(args[0]).Set(ctx, set); err != nil {
					return err
				}
				return say(ctx, serverSide{qc.app, c})
			})
		},
	}
	f.add(cmd, true)
	f.addAct(cmd)
	return cmd
}

func (qc queueCommands) setCommand() *cobra.Command {
	var f queueFlags
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "override settings of a queue, until reset, whatever the code declares; those that are not given stay",
		Args:  exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkWho(cmd, f.who); err != nil {
				return err
			}
			return qc.decide(cmd, f.timeout, "set", func(ctx context.Context, e *stet.Engine) error {
				info, err := e.Queues().Info(ctx, args[0])
				if err != nil {
					return err
				}
				return e.Queues().Set(ctx, args[0], f.over(cmd, info.Settings), f.act())
			}, func(ctx context.Context, c *client.Client) error {
				q, err := c.Queue(ctx, args[0])
				if err != nil {
					return err
				}
				s := f.over(cmd, q.Settings())
				return c.OnQueue(args[0]).Set(ctx, api.SetQueue{Limits: api.LimitsOf(&s), Reason: f.reason})
			})
		},
	}
	f.add(cmd, false)
	f.addAct(cmd)
	return cmd
}

func (qc queueCommands) actCommand(
	name, short string, verb func(stet.Queues, context.Context, string, stet.Act) error,
	by func(q client.OnQueue, ctx context.Context, reason string) error,
) *cobra.Command {
	var f queueFlags
	cmd := &cobra.Command{
		Use:   name + " NAME",
		Short: short,
		Args:  exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkWho(cmd, f.who); err != nil {
				return err
			}
			return qc.decide(cmd, f.timeout, name, func(ctx context.Context, e *stet.Engine) error {
				return verb(e.Queues(), ctx, args[0], f.act())
			}, func(ctx context.Context, c *client.Client) error { return by(c.OnQueue(args[0]), ctx, f.reason) })
		},
	}
	f.addTimeout(cmd)
	f.addAct(cmd)
	return cmd
}

// limitsText returns the limits of a queue in a few words.
func limitsText(s *stet.QueueSettings) string {
	var all []string
	add := func(name, value string) {
		if value != "" {
			all = append(all, name+" "+value)
		}
	}
	add("limit", limitText(s.Concurrency))
	add("limit per key", limitText(s.PerKey))
	add("rate", rateText(s))
	add("rate per key", keyRateText(s))
	if s.ReleaseWhileSuspended {
		all = append(all, "none while suspended")
	}
	if len(all) == 0 {
		return "no limits"
	}
	return strings.Join(all, ", ")
}

// sourceText says where settings come from.
func sourceText(s *stet.QueueSource) string {
	if s.At.IsZero() {
		return ""
	}
	text := "by " + s.By
	if s.Build != "" {
		text += ", build " + s.Build
	}
	text += ", " + moment(store.TimeOf(s.At))
	if s.Why != "" {
		text += ": " + s.Why
	}
	return text
}

func limitText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func rateText(s *stet.QueueSettings) string {
	if s.Rate == 0 {
		return ""
	}
	return fmt.Sprintf("%d per %s", s.Rate, s.Per)
}

func keyRateText(s *stet.QueueSettings) string {
	if s.RatePerKey == 0 {
		return ""
	}
	return fmt.Sprintf("%d per %s", s.RatePerKey, s.Per)
}

func (qc queueCommands) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "list queues: their limits, and how many runs have a permit or wait for one",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return qc.reading(cmd.Context(), func(from side) error {
				queues, err := from.queues(cmd.Context())
				if err != nil {
					return err
				}
				g := &grid{headers: []string{
					"QUEUE", "STATE", "PERMITS", "LIMIT", "PER KEY", "RATE", "RATE PER KEY", "WAITING", "DELAYED", "GROUP",
				}}
				for i := range queues {
					q := &queues[i]
					switch qc.output {
					case formJSON:
						if err := qc.json(api.QueueOf(q)); err != nil {
							return err
						}
					case formIDs:
						if err := qc.id(q.Name); err != nil {
							return err
						}
					}
					state := ""
					if q.Paused {
						state = "paused"
					}
					g.add(printable(q.Name), state, strconv.Itoa(q.Held), limitText(q.Settings.Concurrency),
						limitText(q.Settings.PerKey), rateText(&q.Settings), keyRateText(&q.Settings), strconv.Itoa(q.Waiting),
						strconv.Itoa(q.Delayed), printable(q.Settings.Group))
				}
				if qc.output != formTable {
					return nil
				}
				return qc.print(g)
			})
		},
	}
}

// tasksCommand shows the tasks of a queue, and which workers hold them.
func (qc queueCommands) tasksCommand() *cobra.Command {
	limit := 100
	cmd := &cobra.Command{
		Use:   "tasks NAME",
		Short: "list the tasks of a queue that are leased, by whom, and those that are offered or have expired",
		Args:  exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 1000 {
				return usage(fmt.Errorf("--limit: expected 1 to 1000, found %d", limit))
			}
			return qc.reading(cmd.Context(), func(from side) error {
				tasks, err := from.tasks(cmd.Context(), args[0], limit)
				if err != nil {
					return err
				}
				g := &grid{headers: []string{"TASK", "STATE", "WORKER", "RUN", "LOCATION", "ATTEMPT", "SINCE", "UNTIL", "LOST"}}
				for i := range tasks {
					v := &tasks[i]
					switch qc.output {
					case formJSON:
						if err := qc.json(v); err != nil {
							return err
						}
					case formIDs:
						if err := qc.id(v.Run); err != nil {
							return err
						}
					}
					until := ""
					if !v.Until.IsZero() {
						until = moment(store.TimeOf(v.Until))
					}
					g.add(printable(v.Name), v.State, printable(v.Worker), printable(v.Run), printable(v.Location),
						strconv.Itoa(v.Attempt), moment(store.TimeOf(v.Since)), until, limitText(v.Lost))
				}
				if qc.output != formTable {
					return nil
				}
				return qc.print(g)
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "how many of each state, at most")
	return cmd
}

func (qc queueCommands) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "show a queue",
		Args:  exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return qc.reading(cmd.Context(), func(from side) error {
				q, err := from.queue(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				switch qc.output {
				case formJSON:
					return qc.json(api.QueueOf(q))
				case formIDs:
					return qc.id(q.Name)
				}
				g := &grid{}
				fact := func(name, value string) {
					if value != "" {
						g.add(name, value)
					}
				}
				fact("queue", printable(q.Name))
				if q.Paused {
					fact("state", "paused: it grants no permits")
					if q.PausedBy != nil {
						fact("paused", printable(sourceText(q.PausedBy)))
					}
				}
				fact("unserved", short(q.Lacks, 200))
				for _, l := range q.Locks {
					fact("locked", printable(l.String()))
				}
				fact("limit", limitText(q.Settings.Concurrency))
				fact("limit per key", limitText(q.Settings.PerKey))
				fact("rate", rateText(&q.Settings))
				fact("rate per key", keyRateText(&q.Settings))
				if q.Settings.ReleaseWhileSuspended {
					fact("suspended runs", "have no permit")
				}
				if q.Override != nil {
					fact("overridden", printable(sourceText(q.Override)))
					fact("declared", limitsText(&q.Declared))
					fact("", printable(sourceText(&q.Source)))
				} else {
					fact("declared", printable(sourceText(&q.Source)))
				}
				fact("group", printable(q.Settings.Group))
				fact("permits", strconv.Itoa(q.Held))
				fact("waiting", strconv.Itoa(q.Waiting))
				fact("delayed", strconv.Itoa(q.Delayed))
				fact("granted ever", strconv.FormatInt(q.Granted, 10))
				return qc.print(g)
			})
		},
	}
}

// queueText describes the queue in which a run waits.
func queueText(q *stet.QueueInfo) string {
	text := fmt.Sprintf("%d have one, %d wait", q.Held, q.Waiting)
	if q.Settings.Concurrency > 0 {
		text = fmt.Sprintf("%d of %d are held, %d wait", q.Held, q.Settings.Concurrency, q.Waiting)
	}
	if q.Delayed > 0 {
		text += fmt.Sprintf(", %d are to begin later", q.Delayed)
	}
	if s := rateText(&q.Settings); s != "" {
		text += ", at most " + s
	}
	if s := keyRateText(&q.Settings); s != "" {
		text += ", at most " + s + " for each key"
	}
	if q.Paused {
		text += "; the queue is paused"
	}
	return text
}
