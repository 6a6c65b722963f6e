package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

func (nc nodeCommands) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "nodes",
		Aliases: []string{"node"},
		Short:   "list the processes that work on the store, or drain some",
		Long: `Lists the processes that work on the store, or could: their builds, groups and
workflows, how many shards each owns, and when it was last heard of. A store that
one process works on at a time has one owner, and others that stand by. Steps that have
been executing for over 10 s are listed below, as far as processes have said so.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("expected drain, found %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return nc.reading(cmd.Context(), func(from side) error {
				c, err := from.nodes(cmd.Context())
				if err != nil {
					return err
				}
				return nc.list(c)
			})
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "drain NODE...",
		Short: "make processes give their shards to the others",
		Long: `Makes processes give their shards to the others of their groups, and take no more
until they are started again. Steps that they execute may end within their grace
period; their runs go on elsewhere. stet nodes shows how many shards each has left.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("expected the names of nodes, as stet nodes lists them"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := nc.checkNoIDs(); err != nil {
				return err
			}
			if c, err := nc.client(); c != nil || err != nil {
				return orBy(err, func() error {
					return nc.drain(args, func(node string) error { return c.DrainNode(cmd.Context(), node, "") })
				})
			}
			return nc.with(cmd.Context(), func(e *stet.Engine, _ store.Store) error {
				return nc.drain(args, func(node string) error { return e.Nodes().Drain(cmd.Context(), node, stet.Act{}) })
			})
		},
	})
	return cmd
}

func (nc nodeCommands) list(c *cluster) error {
	views := api.NodesOf(&c.NodesInfo)
	g := &grid{headers: []string{"NODE", "STATE", "SHARDS", "BUILD", "GROUPS", "WORKFLOWS", "PROCESS", "HEARD OF"}}
	bodies := &grid{headers: []string{"EXECUTING", "RUN", "ATTEMPT", "SINCE", "ON"}}
	for _, v := range views {
		for _, b := range v.Bodies {
			bodies.add(printable(b.Location), printable(b.Run), strconv.Itoa(b.Attempt),
				c.since(b.Since)+c.mark(b.Since), printable(v.Node))
		}
		switch nc.output {
		case formJSON:
			if err := nc.json(v); err != nil {
				return err
			}
		case formIDs:
			if err := nc.id(v.Node); err != nil {
				return err
			}
		default:
			g.add(printable(v.Node), v.State, strconv.Itoa(v.Shards), printable(v.Build), printable(strings.Join(v.Groups, ",")),
				strconv.Itoa(len(v.Workflows)), printable(fmt.Sprintf("%d on %s", v.PID, v.Host)),
				duration(c.Now.Time().Sub(v.Seen))+" ago")
		}
	}
	if nc.output != formTable {
		return nil
	}
	if err := nc.print(g); err != nil {
		return err
	}
	if len(bodies.rows) > 0 {
		fmt.Fprintln(nc.out)
		if err := nc.print(bodies); err != nil {
			return err
		}
	}
	for _, v := range views {
		for _, lack := range v.Lacks {
			fmt.Fprintf(nc.out, "\n%s lacks what a record needs, which waits for another process: %s\n", printable(v.Node),
				printable(lack))
		}
	}
	if digests := c.zones(); len(digests) > 1 {
		fmt.Fprintf(nc.out, "\nthese processes have different data of time zones: %s\n",
			printable(strings.Join(digests, "; ")))
	}
	return nil
}

func (nc nodeCommands) drain(nodes []string, drain func(string) error) error {
	var problems []error
	for _, n := range nodes {
		if err := drain(n); err != nil {
			if errors.Is(err, stet.ErrRefused) {
				err = conflictError{err}
			}
			problems = append(problems, err)
			continue
		}
		nc.say("%s gives its shards back", printable(n))
	}
	return joinRuns(problems)
}
