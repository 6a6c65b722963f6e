package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

func (tc topicCommands) publishCommand() *cobra.Command {
	var key, mode, expiry, retention string
	var most int
	var mostBytes int64
	cmd := &cobra.Command{
		Use:   "publish TOPIC [VALUE]",
		Short: "publish an event to a topic; VALUE is JSON, - reads it from standard input",
		Long: `Publishes an event and prints its ID. VALUE is JSON, - reads it from standard
input; without it the value is null. The event is durable when the command ends.

Which runs get it depends on the topic's settings, which travel with each event.
Without the flags they are those of the last event that was published to the topic;
a new topic broadcasts. The exit code is 4 if the topic is full.`,
		Args: between(1, "TOPIC", "VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			value, err := tc.jsonArgument(args, 1)
			if err != nil {
				return err
			}
			changed := cmd.Flags().Changed
			var options []stet.SendOption
			if changed("key") {
				if key == "" {
					return usage(errors.New("--key: expected 1 to 255 bytes, found none"))
				}
				options = append(options, stet.SendKey(key))
			}
			publish := func(from side, publish func(*stet.Topic[json.RawMessage]) (string, error)) error {
				topic := &stet.Topic[json.RawMessage]{Name: args[0]}
				switch last, err := from.topic(cmd.Context(), args[0]); {
				case err == nil && last.Accepted > 0:
					if err := settingsOf(last, topic); err != nil {
						return err
					}
				case err != nil && !errors.Is(err, stet.ErrNotFound):
					return err
				}
				var wrong []error
				if changed("mode") {
					topic.Mode, err = stet.ParseTopicMode(mode)
					wrong = append(wrong, flagError("--mode", err))
				}
				if changed("expiry") {
					topic.Expiry, err = durationOrNone(expiry)
					wrong = append(wrong, flagError("--expiry", err))
				}
				if changed("retention") {
					topic.Retention, err = durationOrNone(retention)
					wrong = append(wrong, flagError("--retention", err))
				}
				if changed("cap") {
					topic.Cap = most
				}
				if changed("cap-bytes") {
					topic.CapBytes = mostBytes
				}
				if err := errors.Join(wrong...); err != nil {
					return usage(err)
				}
				id, err := publish(topic)
				if errors.Is(err, stet.ErrTopicFull) {
					return conflictError{err}
				}
				if err != nil {
					return err
				}
				if tc.output == formJSON {
					return tc.json(map[string]string{"id": id})
				}
				return tc.id(id)
			}
			if c, err := tc.client(); c != nil || err != nil {
				return orBy(err, func() error {
					return publish(serverSide{tc.app, c}, func(t *stet.Topic[json.RawMessage]) (string, error) {
						return c.Publish(cmd.Context(), t.Name, key, api.Publish{
							Send: api.Send{Value: value}, Mode: t.Mode.String(), ExpiryMS: inMillis(t.Expiry),
							RetentionMS: inMillis(t.Retention), Cap: t.Cap, CapBytes: t.CapBytes,
						})
					})
				})
			}
			return tc.with(cmd.Context(), func(e *stet.Engine, s store.Store) error {
				return publish(storeSide{tc.app, e, s}, func(t *stet.Topic[json.RawMessage]) (string, error) {
					return t.Publish(cmd.Context(), e, value, options...)
				})
			})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "idempotency `key`: equal keys to one topic are one event, of that ID")
	cmd.Flags().StringVar(&mode, "mode", "", "which runs get the event: `broadcast` is all of them, consumed one")
	cmd.Flags().StringVar(&expiry, "expiry", "", "how long it may be given to a run after now, as a `duration`, or none")
	cmd.Flags().StringVar(&retention, "retention", "",
		"how long the topic keeps events, as a `duration`, or none for ever")
	cmd.Flags().IntVar(&most, "cap", 0, "`number` of events that the topic keeps at most, -1 for any")
	cmd.Flags().Int64Var(&mostBytes, "cap-bytes", 0, "`bytes` of events that the topic keeps at most, -1 for any")
	return cmd
}

// settingsOf gives a topic the settings of the last event that was published to it.
func settingsOf(last *api.Topic, topic *stet.Topic[json.RawMessage]) (err error) {
	orNone := func(ms int64) time.Duration {
		if ms == 0 {
			return stet.None
		}
		return time.Duration(ms) * time.Millisecond
	}
	topic.Expiry, topic.Retention, topic.Cap = orNone(last.ExpiryMS), orNone(last.RetainMS), last.Cap
	if last.Cap == 0 {
		topic.Cap = int(stet.None)
	}
	if topic.CapBytes = last.CapBytes; last.CapBytes == 0 {
		topic.CapBytes = int64(stet.None)
	}
	topic.Mode, err = stet.ParseTopicMode(last.Mode)
	return err
}

// inMillis returns a duration in milliseconds; of stet.None it is -1.
func inMillis(d time.Duration) int64 {
	if d < 0 {
		return int64(d)
	}
	return d.Milliseconds()
}

func flagError(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// durationOrNone reads a positive duration, or none.
func durationOrNone(text string) (time.Duration, error) {
	if text == "none" {
		return stet.None, nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("expected a positive duration, or none, found %s", text)
	}
	return d, err
}

func (tc topicCommands) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "topics",
		Aliases: []string{"topic"},
		Short:   "list topics and the events that they keep",
		Long: `Topics are where events are published and waited for. Each event that was accepted
is received, pending, in flight to a run, or expired: of a topic that broadcasts, an
event is pending as long as it is kept, even if runs have got it.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("expected ls, show or rm, found %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return tc.list(cmd) },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "ls", Short: "list topics, by name", Args: exactly(),
			RunE: func(cmd *cobra.Command, _ []string) error { return tc.list(cmd) },
		},
		&cobra.Command{
			Use: "show TOPIC", Short: "show how a topic stands, and its events, oldest first", Args: exactly("TOPIC"),
			RunE: func(cmd *cobra.Command, args []string) error { return tc.show(cmd, args[0]) },
		},
		tc.removeCommand(),
	)
	return cmd
}

func (tc topicCommands) removeCommand() *cobra.Command {
	var act stet.Act
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "rm TOPIC EVENT...",
		Short: "take events out of a topic, so that no run gets them any more",
		Long: `Takes events out of a topic, by their IDs, as topics show prints them: an event by which
each run fails that gets it, say. They count as expired. A run that has got the event, or
to which it is on its way, is not concerned; a consumed event on its way is gone when it
comes back.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage(errors.New("expected a topic and the IDs of events, as topics show prints them"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(checkTimeout(timeout, false), checkWho(cmd, act.By)); err != nil {
				return err
			}
			each := func(remove func(ctx context.Context, id string) error) error {
				var problems []error
				for _, id := range args[1:] {
					problems = append(problems, removeEvent(cmd.Context(), args[0], id, timeout, remove))
				}
				return joinRuns(slices.DeleteFunc(problems, func(err error) bool { return err == nil }))
			}
			if c, err := tc.client(); c != nil || err != nil {
				return orBy(errors.Join(err, refuseLocal(cmd)), func() error {
					return each(func(ctx context.Context, id string) error {
						done, err := c.OnTopic(args[0]).Remove(ctx, id, act.Why, byServer(timeout))
						if err == nil && !done {
							err = stet.ErrPending
						}
						return err
					})
				})
			}
			return tc.deciding(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				return each(func(ctx context.Context, id string) error { return e.Topics().Remove(ctx, args[0], id, act) })
			})
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "how long to wait for a decision")
	cmd.Flags().StringVar(&act.Why, "reason", "", "`text` for the log")
	whoFlag(cmd, &act.By)
	return cmd
}

func removeEvent(
	ctx context.Context, topic, id string, timeout time.Duration, remove func(context.Context, string) error,
) error {
	wait, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := remove(wait, id)
	if errors.Is(err, stet.ErrPending) {
		return hintedError{fmt.Errorf("remove event %q of topic %q: nobody has decided within %s", id, topic, timeout),
			"the request stands until an application works on the store"}
	}
	return err
}

func (tc topicCommands) list(cmd *cobra.Command) error {
	return tc.reading(cmd.Context(), func(from side) error {
		views, err := from.topics(cmd.Context())
		if err != nil {
			return err
		}
		return tc.printAll(views)
	})
}

// printTopics prints topics; with the form ids their names.
func (tc topicCommands) printAll(views []*api.Topic) error {
	g := &grid{headers: []string{
		"TOPIC", "MODE", "ACCEPTED", "RECEIVED", "PENDING", "IN FLIGHT", "EXPIRED", "REFUSED", "WAITING",
	}}
	for _, v := range views {
		var err error
		switch tc.output {
		case formIDs:
			err = tc.id(v.Name)
		case formJSON:
			err = tc.json(v)
		default:
			g.add(printable(v.Name), v.Mode, fmt.Sprint(v.Accepted), fmt.Sprint(v.Received), fmt.Sprint(v.Pending),
				fmt.Sprint(v.InFlight), fmt.Sprint(v.Expired), fmt.Sprint(v.Refused), fmt.Sprint(v.Waiting))
		}
		if err != nil {
			return err
		}
	}
	if tc.output == formTable {
		return tc.print(g)
	}
	return nil
}

func (tc topicCommands) show(cmd *cobra.Command, name string) error {
	return tc.reading(cmd.Context(), func(from side) error {
		v, err := from.topic(cmd.Context(), name)
		if err != nil {
			return err
		}
		if v.Events, err = from.events(cmd.Context(), name); err != nil {
			return err
		}
		waits := &grid{headers: []string{"RUN", "WAITS AT", "SINCE", "UNTIL"}}
		for _, w := range v.Waits {
			until := "-"
			if !w.Until.IsZero() {
				until = moment(store.TimeOf(w.Until))
			}
			waits.add(printable(w.Run), printable(w.Location), moment(store.TimeOf(w.Since)), until)
		}
		switch tc.output {
		case formJSON:
			return tc.json(v)
		case formIDs:
			for _, ev := range v.Events {
				if err := tc.id(ev.ID); err != nil {
					return err
				}
			}
			return nil
		}
		if err := tc.printAll([]*api.Topic{v}); err != nil {
			return err
		}
		if _, err = fmt.Fprintln(tc.out, settingsText(v)); err != nil {
			return err
		}
		if v.Lacks != "" {
			tc.say("the topic %s", printable(v.Lacks))
		}
		if modes := modesOf(v); len(modes) > 1 {
			tc.say("events of this topic were published with different modes: %s; its publishers must agree on one",
				strings.Join(modes, ", "))
		}
		g := &grid{headers: []string{"EVENT", "MODE", "SENT", "GOT BY", "SIZE", "VALUE"}}
		for _, ev := range v.Events {
			by := "nobody"
			switch {
			case ev.InFlight:
				by = "in flight"
			case ev.Received > 0:
				by = fmt.Sprintf("%d runs", ev.Received)
			}
			g.add(printable(ev.ID), ev.Mode, moment(store.TimeOf(ev.Sent)), by, fmt.Sprint(ev.Size), short(string(ev.Value), 60))
		}
		if err := tc.print(g); err != nil || len(waits.rows) == 0 {
			return err
		}
		fmt.Fprintln(tc.out)
		return tc.print(waits)
	})
}

// settingsText says what settings a topic has, which come with the events.
func settingsText(v *api.Topic) string {
	if v.Accepted == 0 {
		return "no event has arrived: the settings are those of the publisher of the first one"
	}
	return fmt.Sprintf("expiry %s, retention %s, cap %s, cap in bytes %s",
		orNone(v.ExpiryMS), orNone(v.RetainMS), capText(v.Cap), capText(v.CapBytes))
}

// modesOf returns the modes with which the events of a topic were published, sorted.
func modesOf(v *api.Topic) []string {
	modes := map[string]bool{}
	for _, ev := range v.Events {
		modes[ev.Mode] = true
	}
	return slices.Sorted(maps.Keys(modes))
}

func orNone(ms int64) string {
	if ms <= 0 {
		return "none"
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

func capText[N int | int64](n N) string {
	if n <= 0 {
		return "none"
	}
	return fmt.Sprint(n)
}
