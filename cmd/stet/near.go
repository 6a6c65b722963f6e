package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// near returns the names that differ from a misspelt one in at most two letters, or begin with it.
func near(wrong string, names []string) (found []string) {
	for _, name := range names {
		short := len([]rune(wrong)) < 3
		if !short && (distance(wrong, name) <= 2 || strings.HasPrefix(name, wrong)) {
			found = append(found, name)
		}
	}
	return found
}

// distance returns how many letters must be put in, taken out, replaced or exchanged with the next one to make b of a.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	var before, last []int // rows of the table; before is above last
	for i := range len(x) + 1 {
		row := make([]int, len(y)+1)
		for j := range row {
			if i == 0 || j == 0 {
				row[j] = i + j
				continue
			}
			other := 1
			if x[i-1] == y[j-1] {
				other = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+other)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(y)]
}

// wrongFlag says of a misspelt flag which one it is near to.
func wrongFlag(cmd *cobra.Command, err error) error {
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) {
		return usage(err)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if names := near(unknown.GetSpecifiedName(), names); len(names) > 0 {
		return usage(fmt.Errorf("%w, which is near to --%s", err, strings.Join(names, ", --")))
	}
	return usage(fmt.Errorf("%w; %s --help lists those that there are", err, cmd.CommandPath()))
}

// checkWorkflows returns ErrUnknownWorkflow for a workflow of the filter if no process has ever had its code and there
// is no run of it. It is for a filter that has found nothing.
func (q *question) checkWorkflows(ctx context.Context, from side) error {
	if len(q.Workflows) == 0 {
		return nil
	}
	known, all, err := from.workflows(ctx)
	if err != nil || !all {
		return err
	}
	for _, name := range q.Workflows {
		if slices.Contains(known, name) {
			continue
		}
		runs, _, err := from.list(ctx, store.Filter{Workflows: []string{name}, Limit: 1})
		if err != nil {
			return err
		}
		if len(runs) > 0 {
			continue
		}
		err = fmt.Errorf("%w %q", stet.ErrUnknownWorkflow, name)
		if names := near(name, known); len(names) > 0 {
			err = fmt.Errorf("%w, which is near to %s", err, strings.Join(names, ", "))
		}
		return hintedError{err, "check the name: there is no run of it, and no application has ever had it"}
	}
	return nil
}
