package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

func (rc runCommands) listCommand() *cobra.Command {
	var query, cursor string
	var tags map[string]string
	var limit int
	cmd := &cobra.Command{
		Use:     "ls [FILTER]",
		Aliases: []string{"list"},
		Short:   "list runs, newest first",
		Long:    "Lists the runs that match the filter, or all, newest first. See stet help filters.",
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := parseQuestion(args, query)
			if err != nil {
				return err
			}
			q.Limit, q.Cursor = limit, cursor
			for _, key := range slices.Sorted(maps.Keys(tags)) {
				q.Tags = append(q.Tags, store.Pair{Key: key, Value: tags[key]})
			}
			return rc.reading(cmd.Context(), func(from side) error { return rc.list(cmd.Context(), from, q) })
		},
	}
	cmd.Flags().StringVar(&query, "query", "", "the same as FILTER")
	cmd.Flags().StringToStringVar(&tags, "tag", nil, "only runs with this tag, as `KEY=VALUE`; several must all be there")
	cmd.Flags().IntVar(&limit, "limit", store.DefaultPage,
		fmt.Sprintf("`number` of runs at most, up to %d", store.MaxPage))
	cmd.Flags().StringVar(&cursor, "cursor", "", "begin where a former page has ended; it printed the `text`")
	return cmd
}

// list prints the runs that match. It reads them in pieces, so that it holds the
// values of a few at a time.
func (rc runCommands) list(ctx context.Context, from side, q *question) error {
	if err := q.resolve(ctx, from); err != nil {
		return err
	}
	filter := q.Filter
	left, _, err := (&store.Filter{Limit: filter.Limit}).Bounds() // the cursor may be a server's
	if err != nil {
		return err
	}
	filter.Values = rc.output != formIDs || q.waits != ""
	var rows []*stet.RunInfo // of the table
	found := false
	for left > 0 {
		filter.Limit = min(left, store.DefaultPage)
		runs, next, err := from.list(ctx, filter)
		if err != nil {
			return err
		}
		for _, run := range runs {
			if !q.fits(run.info) {
				continue
			}
			left, found = left-1, true
			switch rc.output {
			case formIDs:
				err = rc.id(run.ID)
			case formJSON:
				err = rc.json(run.Run)
			default:
				run.lighten()
				rows = append(rows, run.info)
			}
			if err != nil {
				return err
			}
		}
		if filter.Cursor = next; next == "" {
			break
		}
	}
	if !found && filter.Cursor == "" {
		if err := q.checkWorkflows(ctx, from); err != nil {
			return err
		}
	}
	if rc.output == formTable {
		c, err := from.nodes(ctx)
		if err != nil {
			return err
		}
		if err := rc.print(runsGrid(c, rows)); err != nil {
			return err
		}
	}
	if filter.Cursor != "" {
		rc.say("there are more: --cursor %s", filter.Cursor)
	}
	return nil
}

// lighten drops the values that a table does not show, so that a long one fits into memory.
func (r *aRun) lighten() {
	r.Run, r.info.Input = nil, stet.RawValue{}
	if r.info.Status != store.Failed {
		r.info.Output = stet.RawValue{}
	}
}

// runsGrid is the table of a list of runs.
func runsGrid(c *cluster, infos []*stet.RunInfo) *grid {
	const statusColumn = 2
	g := &grid{headers: []string{"ID", "WORKFLOW", "STATUS", "AGE", "DURATION", "DETAIL"}}
	children := slices.ContainsFunc(infos, func(info *stet.RunInfo) bool { return placeOf(info) != "" })
	if children {
		g.headers = slices.Insert(g.headers, len(g.headers)-1, "PLACE")
	}
	for _, info := range infos {
		cells := []string{
			printable(info.ID), printable(info.Workflow), statusText(info), duration(c.Now.Time().Sub(info.Created)),
			took(info, c.Now.Time()),
		}
		if children {
			cells = append(cells, short(placeOf(info), 60))
		}
		g.add(append(cells, short(detail(c, info), 100))...)
	}
	g.style = func(row, column int) lipgloss.Style {
		if column == statusColumn {
			return statusStyle(infos[row].Status)
		}
		return lipgloss.NewStyle()
	}
	return g
}

// placeOf returns where a child is in its parent, as etl-7/load/[acme-0004]: it says more than the ID of a child
// without a name. "": the run is no child, is detached, or its parent was deleted.
func placeOf(info *stet.RunInfo) string {
	if info.ParentID == "" || info.ParentLocation == "" {
		return ""
	}
	return info.ParentID + "/" + info.ParentLocation
}

func statusText(r *stet.RunInfo) string {
	if r.Marks != 0 {
		return r.Status.String() + " (" + r.Marks.String() + ")"
	}
	return r.Status.String()
}

// took is how long a run has taken, up to its end or now.
func took(r *stet.RunInfo, now time.Time) string {
	switch {
	case r.Started.IsZero():
		return "-"
	case r.Ended.IsZero():
		return duration(now.Sub(r.Started))
	}
	return duration(r.Ended.Sub(r.Started))
}

// detail says in a few words why a run is in its state.
func detail(c *cluster, info *stet.RunInfo) string {
	if len(info.Why) == 0 || info.Status == store.Succeeded {
		return ""
	}
	w := info.Why[0]
	switch w.Code {
	case "executing", "lost", "retry", "offered", "worker":
	default:
		w.Since = time.Time{} // the age of the run says enough
	}
	text := c.why(&w)
	if w.Code == "failed" && w.Quote != "" {
		text = w.Quote // the status is shown next to it
	}
	if more := len(info.Why) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// why returns what a Why says, in a line.
func (c *cluster) why(w *stet.Why) string {
	text := w.Text
	if !w.Since.IsZero() {
		text += " since " + c.since(w.Since)
		if w.Code == "executing" {
			text += c.mark(w.Since)
		}
	}
	if !w.Until.IsZero() {
		at := w.Until.UTC().Format(time.RFC3339)
		switch w.Code {
		case "begin":
			text += " " + at
		case "retry":
			text += ", next at " + at
		case "worker":
			text += ", lease until " + at
		default:
			text += " until " + at
		}
	}
	if w.Quote != "" {
		text += ": " + w.Quote
	}
	return text
}

func (rc runCommands) countCommand() *cobra.Command {
	var query string
	cmd := &cobra.Command{
		Use:   "count [FILTER]",
		Short: "count runs by workflow and status",
		Long:  "Counts the runs that match the filter, or all, by workflow and status. See stet help filters.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := rc.checkNoIDs(); err != nil {
				return err
			}
			q, err := parseQuestion(args, query)
			if err == nil && q.waits != "" {
				err = usage(errors.New("waits: only stet ls, and --query, find runs by what they wait for"))
			}
			if err != nil {
				return err
			}
			if c, err := rc.client(); c != nil || err != nil {
				return orBy(err, func() error { return rc.countBy(cmd.Context(), c, q) })
			}
			return rc.with(cmd.Context(), func(e *stet.Engine, s store.Store) error {
				from := storeSide{rc.app, e, s}
				if err := q.resolve(cmd.Context(), from); err != nil {
					return err
				}
				tallies, err := e.Runs().Count(cmd.Context(), q.Filter)
				if err == nil && len(tallies) == 0 {
					err = q.checkWorkflows(cmd.Context(), from)
				}
				if err != nil {
					return err
				}
				return rc.tallies(tallies)
			})
		},
	}
	cmd.Flags().StringVar(&query, "query", "", "the same as FILTER")
	return cmd
}

func (rc runCommands) tallies(tallies []store.Tally) error {
	if rc.output == formJSON {
		for _, t := range tallies {
			view := struct {
				Workflow string       `json:"workflow"`
				Status   store.Status `json:"status"`
				Runs     int64        `json:"runs"`
			}{t.Workflow, t.Status, t.Runs}
			if err := rc.json(view); err != nil {
				return err
			}
		}
		return nil
	}
	g := &grid{headers: []string{"WORKFLOW", "STATUS", "RUNS"}}
	for _, t := range tallies {
		g.add(printable(t.Workflow), t.Status.String(), strconv.FormatInt(t.Runs, 10))
	}
	return rc.print(g)
}
