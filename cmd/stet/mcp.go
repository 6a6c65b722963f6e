package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/cmd/stet/internal/toolbox"
	"github.com/stet-run/stet/docs/guide"
	"github.com/stet-run/stet/server"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// mcpFlags say what agents may do.
type mcpFlags struct {
	allow   []string
	confirm string
	bulk    int
	values  string
}

// add adds the flags, their names after a prefix. confirm is the default of that flag.
func (f *mcpFlags) add(cmd *cobra.Command, prefix string, confirm toolbox.Confirm) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.allow, prefix+"allow", nil,
		"what agents may do beside reading, as `VERBS`: "+strings.Join(toolbox.Verbs(), ", "))
	flags.StringVar(&f.confirm, prefix+"confirm", string(confirm),
		"`how` an act is confirmed: ask (the client asks a person, and is trusted to do so), token (the client, by a second "+
			"call), none")
	flags.IntVar(&f.bulk, prefix+"bulk", 1, "most `runs` that one call may act on")
	flags.StringVar(&f.values, prefix+"values", "all", "none: leave inputs, outputs, messages and error texts out")
}

// box returns the tools that the flags allow. Its log is errOut: standard output is for the
// protocol.
func (f *mcpFlags) box(errOut io.Writer) (*toolbox.Box, error) {
	if slices.Contains(f.allow, "all") {
		return nil, usage(errors.New("allow: expected the verbs by name, found all: there is no such choice"))
	}
	if f.values != "all" && f.values != "none" {
		return nil, usage(fmt.Errorf("values: expected all or none, found %q", f.values))
	}
	b, err := toolbox.New(toolbox.Options{
		Allow: f.allow, Confirm: toolbox.Confirm(f.confirm), Bulk: f.bulk, NoValues: f.values == "none",
		Guide: guide.Pages, Version: buildVersion(), Log: slog.New(slog.NewTextHandler(errOut, nil)),
	})
	if err != nil {
		return nil, usage(err)
	}
	return b, nil
}

func (ac adminCommands) mcpCommand() *cobra.Command {
	var f mcpFlags
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "serve the store to an agent, by the Model Context Protocol",
		Long: `Serves the store to an agent over standard input and output, by the Model Context
Protocol, until the input ends. A client starts it, as it is told in its settings:

  {"mcpServers": {"stet": {"command": "stet", "args": ["mcp", "--db", "shop.db"]}}}

Tools that read are always there. Tools that change something are there only if --allow
names them. Each takes a reason, and says first what it would do to which runs; a person
confirms that in the client. A client that cannot ask is refused, unless --confirm says
otherwise. Audits have mcp:NAME, where NAME is who has started it, or whose token it is.

Each call is logged to standard error: the tool, the runs and the verdict, never values.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			box, err := f.box(ac.err)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if ac.server != "" {
				c, err := toolbox.Outside(ac.server, ac.token)
				if err != nil {
					return usage(err)
				}
				return ac.converse(ctx, box, c)
			}
			return ac.with(ctx, func(e *stet.Engine, s store.Store) error {
				who := localUser()
				h, err := server.New(e, server.Options{Logger: ac.log, Rate: stet.None, Access: []access.Authenticator{
					server.Func(func(*http.Request) (*access.Identity, error) { return &who, nil }),
				}})
				if err != nil {
					return err
				}
				d := &decider{engine: e, store: s, log: ac.log}
				defer d.wait()
				c, err := toolbox.Inside(d.around(h), nil)
				if err != nil {
					return err
				}
				return ac.converse(ctx, box, c)
			})
		},
	}
	f.add(cmd, "", toolbox.Ask)
	return cmd
}

// converse speaks with the client at the other end of standard input and output.
func (ac adminCommands) converse(ctx context.Context, box *toolbox.Box, c *client.Client) error {
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	out := &locked{w: ac.out}
	err = box.Server(c, info.Identity.Name).Run(ctx, &mcp.IOTransport{
		Reader: io.NopCloser(newFrames(ac.in, out)), Writer: out,
	})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
