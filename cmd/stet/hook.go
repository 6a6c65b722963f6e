package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

func (ac adminCommands) hookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "hook", Short: "let other services call: create, list and remove webhooks of the store's servers",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(ac.createHookCommand(), ac.listHooksCommand(), ac.removeHookCommand())
	return cmd
}

func (ac adminCommands) createHookCommand() *cobra.Command {
	var h api.SetHook
	var who string
	var from []string
	cmd := &cobra.Command{
		Use:   "create NAME --scheme SCHEME --secret-env VARIABLE (--start|--send|--publish NAME | --resolve)",
		Short: "create a webhook, and print the path at which servers have it",
		Long: `Creates a webhook: a service calls POST api/v1/hooks/NAME of a server of the store, and the
signature is its only credential. A call does one thing: it starts a run, sends a message,
publishes an event, or resolves a promise, once for each delivery that the service knows.

--id and --value are JSON pointers into the body, as /data/object/id: to the ID of the run,
or of --resolve to the token; and to what the run gets, by default the whole body.

The secret is read from an environment variable, and stands in the store, encrypted as values
are. While a service changes its secret there may be two: --secret-env NEW,OLD --replace.

Schemes: standard (standardwebhooks.com), github, stripe, and hmac: an HMAC-SHA256 of the body
in --header.`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ac.checkNoIDs(); err != nil {
				return err
			}
			for _, variable := range from {
				secret := os.Getenv(variable)
				if secret == "" {
					return usage(fmt.Errorf("--secret-env: expected a secret in the variable %s, found none", variable))
				}
				h.Secrets = append(h.Secrets, secret)
			}
			if len(from) == 0 {
				return usage(errors.New("expected --secret-env and the name of a variable that has the secret"))
			}
			name := args[0]
			created := func(err error) error {
				if errors.Is(err, stet.ErrInvalid) {
					return usage(err)
				}
				if err != nil {
					return err
				}
				path := "api/v1/hooks/" + api.PathSegment(name)
				if ac.output == formJSON {
					return ac.json(map[string]string{"name": name, "path": path})
				}
				_, err = fmt.Fprintln(ac.out, path)
				return err
			}
			if c, err := ac.client(); c != nil || err != nil {
				return orBy(errors.Join(err, refuseLocal(cmd)), func() error { return created(c.SetHook(cmd.Context(), name, h)) })
			}
			return ac.with(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				hooks := stet.HooksOf(e)
				set := hooks.Create
				if h.Replace {
					set = hooks.Replace
				}
				return created(set(cmd.Context(), h.Hook(name), stet.Act{By: who, Why: h.Reason}))
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&h.Scheme, "scheme", "", "how the service signs: `scheme` standard, github, stripe or hmac")
	f.StringVar(&h.Header, "header", "", "of hmac: the `header` that has the signature; default "+stet.DefaultHookHeader)
	f.StringSliceVar(&from, "secret-env", nil, "`variables` of the environment that have the secret, or two of them")
	f.StringVar(&h.Start, "start", "", "start a run of this `workflow`")
	f.StringVar(&h.Send, "send", "", "send a `message` of this name to the run of --id")
	f.StringVar(&h.Publish, "publish", "", "publish an event of this `topic`")
	f.BoolVar(&h.Resolve, "resolve", false, "resolve the promise whose token --id leads to")
	f.StringVar(&h.Target, "id", "", "JSON `pointer` to the run's ID, or to the token of a promise")
	f.StringVar(&h.Value, "value", "", "JSON `pointer` to the value; default: the whole body")
	f.BoolVar(&h.Replace, "replace", false, "replace the webhook of this name")
	f.StringVar(&h.Reason, "reason", "", "`text` for the audit")
	whoFlag(cmd, &who)
	return cmd
}

func (ac adminCommands) listHooksCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "list webhooks, without their secrets", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ac.reading(cmd.Context(), func(from side) error {
				list, err := from.hooks(cmd.Context())
				if err != nil {
					return err
				}
				g := &grid{headers: []string{"HOOK", "SCHEME", "DOES", "ID", "VALUE", "SINCE", "BY", "WHY"}}
				for _, h := range list {
					var err error
					switch ac.output {
					case formIDs:
						err = ac.id(h.Name)
					case formJSON:
						err = ac.json(h)
					default:
						g.add(printable(h.Name), h.Scheme, printable(deed(&h)), printable(h.Target), printable(h.Value),
							moment(store.TimeOf(h.Created)), printable(h.By), printable(h.Why))
					}
					if err != nil {
						return err
					}
				}
				if ac.output == formTable {
					return ac.print(g)
				}
				return nil
			})
		},
	}
}

// deed says what a webhook does.
func deed(h *api.Hook) string {
	verb := "resolve"
	switch {
	case h.Start != "":
		verb = "start "
	case h.Send != "":
		verb = "send "
	case h.Publish != "":
		verb = "publish "
	}
	return verb + cmp.Or(h.Start, h.Send, h.Publish)
}

func (ac adminCommands) removeHookCommand() *cobra.Command {
	var act stet.Act
	cmd := &cobra.Command{
		Use: "rm NAME", Short: "remove a webhook: its calls are refused from now on", Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c, err := ac.client(); c != nil || err != nil {
				return orBy(errors.Join(err, refuseLocal(cmd)), func() error {
					return c.RemoveHook(cmd.Context(), args[0], act.Why)
				})
			}
			return ac.with(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				return stet.HooksOf(e).Remove(cmd.Context(), args[0], act)
			})
		},
	}
	cmd.Flags().StringVar(&act.Why, "reason", "", "`text` for the audit")
	whoFlag(cmd, &act.By)
	return cmd
}
