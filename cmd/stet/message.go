package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

func (mc messageCommands) sendCommand() *cobra.Command {
	var key string
	var expires time.Duration
	var t target
	cmd := &cobra.Command{
		Use:   "send RUN NAME [VALUE]",
		Short: "send a message to a run; VALUE is JSON, - reads it from standard input",
		Long: `Sends a message to a run. VALUE is JSON, - reads it from standard input; without
it the value is null. With - as RUN the IDs of runs are read from standard input;
with --query instead of RUN the message goes to all live runs that match.`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case t.queried(cmd):
				return between(1, "NAME", "VALUE")(cmd, args)
			case len(args) == 3 && args[0] == "-" && args[2] == "-":
				return usage(errors.New("expected - once: standard input holds IDs or the value"))
			}
			return between(2, "RUN", "NAME", "VALUE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !t.queried(cmd) {
				t.ids, args = args[:1], args[1:]
			}
			value, err := mc.jsonArgument(args, 1)
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
			if cmd.Flags().Changed("expires-in") {
				options = append(options, stet.ExpiresIn(expires))
			}
			if c, err := mc.client(); c != nil || err != nil {
				return orBy(err, func() error {
					return mc.eachBy(cmd.Context(), c, &t, func(ctx context.Context, id string) error {
						run, lookErr := c.Run(ctx, id)
						err := c.Send(ctx, id, args[0], key, api.Send{Value: value, ExpiresInMS: wholeMillis(expires)})
						if err == nil && lookErr == nil {
							mc.noteOtherName(infoOf(run), args[0])
						}
						return err
					})
				})
			}
			message := stet.Message[json.RawMessage](args[0])
			return mc.with(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				return mc.each(cmd.Context(), e, &t, func(ctx context.Context, id string) error {
					info, lookErr := e.Runs().Info(ctx, id)
					err := message.Send(ctx, e, id, value, options...)
					if err == nil && lookErr == nil {
						mc.noteOtherName(info, args[0])
					}
					return err
				})
			})
		},
	}
	t.flags(cmd, "send to", func(r *stet.RunInfo) bool { return !r.Status.Terminal() })
	cmd.Flags().StringVar(&key, "key", "", "idempotency `key`: equal keys to one run give one delivery")
	cmd.Flags().DurationVar(&expires, "expires-in", 0,
		"the message becomes a dead letter if the run has not received it by then: a `duration` from now")
	return cmd
}

// wholeMillis returns a duration in milliseconds, rounded up.
func wholeMillis(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// noteOtherName prints a note if a run waits for messages, and for none with the name: it
// may be misspelt.
func (mc messageCommands) noteOtherName(info *stet.RunInfo, name string) {
	var names []string
	for i := range info.WaitsFor {
		names = append(names, info.WaitsFor[i].Names...)
	}
	if info.Status == store.Suspended && len(names) > 0 && !slices.Contains(names, name) {
		mc.say("run %q waits for %s; the message %q is kept until it is received", info.ID, strings.Join(names, ", "), name)
	}
}

// promiseFlags are the flags that say who assigns a promise, and why.
func promiseFlags(cmd *cobra.Command, act *stet.Act) *cobra.Command {
	whoFlag(cmd, &act.By)
	cmd.Flags().StringVar(&act.Why, "reason", "", "`text` that is kept with the promise")
	return cmd
}

func (mc messageCommands) resolveCommand() *cobra.Command {
	var act stet.Act
	return promiseFlags(&cobra.Command{
		Use:   "resolve TOKEN [VALUE]",
		Short: "assign a value to a promise; VALUE is JSON, - reads it from standard input",
		Args:  between(1, "TOKEN", "VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			value, err := mc.jsonArgument(args, 1)
			if err := cmp.Or(err, checkWho(cmd, act.By)); err != nil {
				return err
			}
			if c, err := mc.client(); c != nil || err != nil {
				return orBy(cmp.Or(err, refuseLocal(cmd)), func() error {
					return hintToken(c.Resolve(cmd.Context(), api.Resolve{Token: args[0], Value: value, Reason: act.Why}))
				})
			}
			return mc.with(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				return hintToken(e.Resolve(cmd.Context(), args[0], value, act))
			})
		},
	}, &act)
}

func (mc messageCommands) promisesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "promises RUN",
		Short: "list the promises of a run, with the tokens that resolve and reject take",
		Args:  exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c, err := mc.client(); c != nil || err != nil {
				return orBy(err, func() error {
					found, err := c.Promises(cmd.Context(), args[0])
					if err != nil {
						return err
					}
					return mc.printPromises(found.Promises)
				})
			}
			return mc.with(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				found, err := e.Runs().Promises(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				promises := make([]api.Promise, len(found))
				for i := range found {
					promises[i] = api.PromiseOf(&found[i])
				}
				return mc.printPromises(promises)
			})
		},
	}
}

// printPromises prints promises; in the form ids their tokens.
func (mc messageCommands) printPromises(promises []api.Promise) error {
	g := &grid{headers: []string{"PROMISE", "STATE", "SINCE", "TOKEN"}}
	for _, v := range promises {
		var err error
		switch mc.output {
		case formIDs:
			_, err = fmt.Fprintln(mc.out, v.Token)
		case formJSON:
			err = mc.json(v)
		default:
			g.add(printable(v.Location), v.State, moment(store.TimeOf(v.At)), v.Token)
		}
		if err != nil {
			return err
		}
	}
	if mc.output == formTable {
		return mc.print(g)
	}
	return nil
}

func (mc messageCommands) rejectCommand() *cobra.Command {
	var message string
	var act stet.Act
	cmd := &cobra.Command{
		Use:   "reject TOKEN",
		Short: "assign a failure to a promise",
		Args:  exactly("TOKEN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkWho(cmd, act.By); err != nil {
				return err
			}
			if c, err := mc.client(); c != nil || err != nil {
				return orBy(cmp.Or(err, refuseLocal(cmd)), func() error {
					return hintToken(c.Reject(cmd.Context(), api.Reject{Token: args[0], Message: message, Reason: act.Why}))
				})
			}
			return mc.with(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				return hintToken(e.Reject(cmd.Context(), args[0], errors.New(message), act))
			})
		},
	}
	cmd.Flags().StringVarP(&message, "message", "m", "rejected", "`text` of the error that the workflow gets")
	return promiseFlags(cmd, &act)
}

// hintToken says where tokens come from if there is no such promise.
func hintToken(err error) error {
	if errors.Is(err, stet.ErrNotFound) {
		return hintedError{err, "the token is what Promise.Token has returned in the workflow; stet promises RUN lists them"}
	}
	return err
}
