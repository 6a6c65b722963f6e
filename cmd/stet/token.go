package main

import (
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

func (ac adminCommands) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Short: "create, list and revoke the access tokens of the store's servers",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(ac.createTokenCommand(), ac.listTokensCommand(), ac.revokeTokenCommand())
	return cmd
}

func (ac adminCommands) createTokenCommand() *cobra.Command {
	var info stet.TokenInfo
	var lasts time.Duration
	var act stet.Act
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "create an access token for a person or a program, and print it",
		Long: `Creates an access token and prints it. The store keeps its hash alone, so it cannot be
printed again. Requests with it are of NAME, which stands in the audits of runs.

Roles: a viewer sees runs without values; a caller starts runs and sends to them, too; an
operator sees values and changes runs, queues and schedules; an admin may do everything. A
worker executes the tasks that --named gives, as task:resize or task:media-*, and no more.`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ac.checkNoIDs(); err != nil {
				return err
			}
			if lasts < 0 {
				return usage(fmt.Errorf("--expires-in: expected a duration, or 0 for never, found %s", lasts))
			}
			info.Name = args[0]
			if lasts > 0 {
				info.Expires = time.Now().Add(lasts)
			}
			print := func(token string, err error) error {
				if err != nil {
					return err
				}
				if ac.output == formJSON {
					return ac.json(api.CreatedToken{Token: token})
				}
				_, err = fmt.Fprintln(ac.out, token)
				return err
			}
			if c, err := ac.client(); c != nil || err != nil {
				return orBy(errors.Join(err, refuseLocal(cmd)), func() error {
					create := api.CreateToken{Name: info.Name, Role: info.Role, Workflows: info.Workflows, Named: info.Named,
						ExpiresInMS: lasts.Milliseconds(), Reason: act.Why}
					if lasts == 0 {
						create.ExpiresInMS = -1
					}
					created, err := c.CreateToken(cmd.Context(), create)
					if err != nil {
						return err
					}
					return print(created.Token, nil)
				})
			}
			return ac.with(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				return print(stet.TokensOf(e).Create(cmd.Context(), info, act))
			})
		},
	}
	cmd.Flags().StringVar(&info.Role, "role", "viewer", "`role`: viewer, caller, operator, admin or worker")
	cmd.Flags().StringSliceVar(&info.Workflows, "workflow", nil, "limit it to runs of these `workflows`")
	cmd.Flags().StringSliceVar(&info.Named, "named", nil,
		"with --workflow: these too, as `KIND:NAME`, like topic:jobs, queue:model, schedule:nightly")
	cmd.Flags().DurationVar(&lasts, "expires-in", 90*24*time.Hour, "how long it counts; 0: for ever")
	cmd.Flags().StringVar(&act.Why, "reason", "", "`text` for the log")
	whoFlag(cmd, &act.By)
	return cmd
}

func (ac adminCommands) listTokensCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "list access tokens, without their secrets", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ac.reading(cmd.Context(), func(from side) error {
				list, err := from.tokens(cmd.Context())
				if err != nil {
					return err
				}
				g := &grid{headers: []string{"ID", "NAME", "ROLE", "WORKFLOWS", "CREATED", "EXPIRES", "BY"}}
				for _, v := range list {
					var err error
					switch ac.output {
					case formIDs:
						err = ac.id(v.ID)
					case formJSON:
						err = ac.json(v)
					default:
						expires := "never"
						if !v.Expires.IsZero() {
							expires = moment(store.TimeOf(v.Expires))
						}
						g.add(v.ID, printable(v.Name), v.Role, printable(limitsOf(v)), moment(store.TimeOf(v.Created)),
							expires, printable(v.By))
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

func (ac adminCommands) revokeTokenCommand() *cobra.Command {
	var act stet.Act
	cmd := &cobra.Command{
		Use: "revoke ID", Short: "revoke an access token: servers refuse it within a second", Args: exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c, err := ac.client(); c != nil || err != nil {
				return orBy(errors.Join(err, refuseLocal(cmd)), func() error { return c.RevokeToken(cmd.Context(), args[0]) })
			}
			return ac.with(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				return stet.TokensOf(e).Revoke(cmd.Context(), args[0], act)
			})
		},
	}
	cmd.Flags().StringVar(&act.Why, "reason", "", "`text` for the log")
	whoFlag(cmd, &act.By)
	return cmd
}

// limitsOf returns what a token is limited to: workflows, and what it names besides.
func limitsOf(t api.Token) string {
	if limits := append(slices.Clone(t.Workflows), t.Named...); len(limits) > 0 {
		return strings.Join(limits, ",")
	}
	return "all"
}
