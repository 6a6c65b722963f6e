package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

func (rc runCommands) treeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "tree RUN...",
		Short: "show runs with their children",
		Long: `Shows runs, the children that they have started, and those of these, with the
status of each and where its parent has started it. With - the IDs are read from
standard input. As JSON each run holds its children; as IDs a run comes before
them.`,
		Args: someRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := rc.runIDs(args)
			if err != nil {
				return err
			}
			return rc.reading(cmd.Context(), func(from side) error {
				c, err := from.nodes(cmd.Context())
				if err != nil {
					return err
				}
				var problems []error
				var families []*family
				for _, id := range ids {
					run, err := from.run(cmd.Context(), id)
					if err == nil {
						var f *family
						if f, err = familyOf(cmd.Context(), from, run); err == nil {
							families = append(families, f)
						}
					}
					if err != nil {
						problems = append(problems, err)
					}
				}
				if err := rc.printFamilies(families, c); err != nil {
					return err
				}
				return joinRuns(problems)
			})
		},
	}
}

// family is a run with its children, oldest first.
type family struct {
	*api.Run
	// Place is where the parent has started the run; "detached" if nobody awaits it
	// there. Of the run that was asked for it is empty.
	Place    string    `json:"place,omitempty"`
	Children []*family `json:"children,omitempty"`

	info *stet.RunInfo
}

const detached = "detached"

// familyOf reads the children of a run, and theirs.
func familyOf(ctx context.Context, from side, run *aRun) (*family, error) {
	f := &family{Run: run.Run, info: run.info}
	children, err := from.children(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("children of run %q: %w", run.ID, err)
	}
	for _, c := range children {
		child, err := familyOf(ctx, from, c)
		if err != nil {
			return nil, err
		}
		child.Place = cmp.Or(c.ParentLocation, detached)
		f.Children = append(f.Children, child)
	}
	return f, nil
}

// walk calls visit for the run and all below it, parents first.
func (f *family) walk(depth int, visit func(f *family, depth int)) {
	visit(f, depth)
	for _, child := range f.Children {
		child.walk(depth+1, visit)
	}
}

func (rc runCommands) printFamilies(families []*family, c *cluster) error {
	switch rc.output {
	case formJSON:
		for _, f := range families {
			if err := rc.json(f); err != nil {
				return err
			}
		}
		return nil
	case formIDs:
		for _, f := range families {
			f.walk(0, func(f *family, _ int) { fmt.Fprintln(rc.out, f.ID) })
		}
		return nil
	}
	if len(families) == 0 {
		return nil
	}
	const statusColumn = 2
	g := &grid{headers: []string{"RUN", "WORKFLOW", "STATUS", "PLACE", "DURATION", "DETAIL"}}
	var statuses []store.Status
	for _, f := range families {
		f.walk(0, func(f *family, depth int) {
			run := f.info
			g.add(strings.Repeat("  ", depth)+printable(run.ID), printable(run.Workflow), statusText(run), printable(f.Place),
				took(run, c.Now.Time()), short(detail(c, f.info), 60))
			statuses = append(statuses, run.Status)
		})
	}
	g.style = func(row, column int) lipgloss.Style {
		if column == statusColumn {
			return statusStyle(statuses[row])
		}
		return lipgloss.NewStyle()
	}
	return rc.print(g)
}
