package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

func (a *app) showCommand() *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "show a run: what it waits for, its operations, its error",
		Args:  exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.with(ctx, func(e *stet.Engine, _ *sqlite.Store) error {
				info, err := e.Get(ctx, args[0])
				if err != nil {
					return err
				}
				entries, err := e.History(ctx, args[0], stet.HistoryQuery{Values: true})
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.json(struct {
						runView
						Operations []operationView `json:"operations"`
					}{viewOf(info), operationViews(entries)})
				}
				if a.output == "ids" {
					_, err := fmt.Fprintln(a.out, info.ID)
					return err
				}
				width := 60
				if full {
					width = 1 << 20
				}
				return a.show(ctx, e, info, entries, width)
			})
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "do not shorten values")
	return cmd
}

// show prints a run for a person.
func (a *app) show(ctx context.Context, e *stet.Engine, info *stet.RunInfo, entries []stet.Entry, width int) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, value)
		}
	}
	line("run", info.ID)
	line("workflow", info.Workflow)
	line("status", statusText(&info.Run))
	line("reason", info.Reason)
	line("created", info.Created.String())
	if info.Started != 0 {
		line("started", info.Started.String())
	}
	if info.Ended != 0 {
		line("ended", fmt.Sprintf("%s, after %s", info.Ended, took(&info.Run)))
	}
	if info.WakeAt != 0 {
		line("wakes at", info.WakeAt.String())
	}
	line("build", info.Build)
	owner, err := ownerOf(ctx, e)
	if err != nil {
		return err
	}
	line("owner", owner)
	line("input", short(string(asJSON(info.Input)), width))
	if info.Status == store.Succeeded {
		line("result", short(string(asJSON(info.Output)), width))
	}
	for _, wait := range info.WaitsFor {
		text := fmt.Sprintf("%s %s", wait.Kind, wait.Location)
		if len(wait.Names) > 0 {
			text += fmt.Sprintf(" (%s)", strings.Join(wait.Names, ", "))
		}
		text += " since " + wait.Since.Format(time.RFC3339)
		if !wait.Until.IsZero() {
			text += " until " + wait.Until.Format(time.RFC3339)
		}
		line("waits for", text)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(entries) > 0 {
		fmt.Fprintln(a.out)
		if err := a.tree(entries, width); err != nil {
			return err
		}
	}
	if info.Err != nil && info.Status == store.Failed {
		fmt.Fprintln(a.out)
		printError(a, info.Err)
	}
	return nil
}

// ownerOf names who works on the store.
func ownerOf(ctx context.Context, e *stet.Engine) (string, error) {
	d, err := e.Describe(ctx)
	if err != nil {
		return "", err
	}
	if len(d.Leases) == 0 {
		return "nobody works on this store", nil
	}
	l := d.Leases[0]
	if l.Until < d.Now {
		return fmt.Sprintf("%s, whose lease ended at %s", l.Node, l.Until), nil
	}
	return l.Node, nil
}

// tree prints operations under the branches they stand in.
func (a *app) tree(entries []stet.Entry, width int) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "OPERATION\tKIND\tSTATE\tORDER\tATTEMPTS\tTOOK\tVALUE")
	var open []string
	for i := range entries {
		e := &entries[i]
		path := strings.Split(e.Location, "/")
		branches := path[:len(path)-1]
		for depth, branch := range branches {
			if depth < len(open) && open[depth] == branch {
				continue
			}
			fmt.Fprintf(w, "%s%s/\t\t\t\t\t\t\n", strings.Repeat("  ", depth), branch)
			open = append(open[:min(depth, len(open))], branch)
		}
		open = open[:min(len(branches), len(open))]
		attempts, order, duration := "", "", ""
		if e.Attempts > 0 {
			attempts = fmt.Sprint(e.Attempts)
		}
		if e.Number > 0 {
			order = fmt.Sprint(e.Number)
		}
		if !e.Ended.IsZero() && !e.Started.IsZero() {
			duration = e.Ended.Sub(e.Started).Round(10 * time.Microsecond).String()
		}
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s\t%s\t%s\n", strings.Repeat("  ", len(branches)), path[len(path)-1],
			e.Kind, e.State, order, attempts, duration, short(valueText(e), width))
	}
	return w.Flush()
}

// valueText is the value of an entry, or its error.
func valueText(e *stet.Entry) string {
	if err := e.Err(); err != nil {
		return "error: " + err.Error()
	}
	var raw json.RawMessage
	if err := e.Decode(&raw); err != nil {
		return fmt.Sprintf("%d bytes of another format", e.Size)
	}
	if raw == nil && !e.Wake.IsZero() {
		return "until " + e.Wake.Format(time.RFC3339)
	}
	return string(raw)
}

// printError prints an error with its causes and stacks.
func printError(a *app, err error) {
	fmt.Fprintln(a.out, "ERROR")
	fmt.Fprintln(a.out, err)
	var failure *stet.Failure
	if errors.As(err, &failure) && failure.Stack != "" {
		fmt.Fprintln(a.out, failure.Stack)
	}
}

// operationView is an entry as JSON.
type operationView struct {
	Location string          `json:"location"`
	Kind     string          `json:"kind"`
	State    string          `json:"state"`
	Number   int64           `json:"number,omitempty"`
	Attempts int             `json:"attempts,omitempty"`
	Started  time.Time       `json:"started,omitzero"`
	Ended    time.Time       `json:"ended,omitzero"`
	Wake     time.Time       `json:"wake,omitzero"`
	Size     int             `json:"size"`
	Value    json.RawMessage `json:"value,omitempty"`
	Error    string          `json:"error,omitempty"`
}

func operationViews(entries []stet.Entry) []operationView {
	views := make([]operationView, len(entries))
	for i := range entries {
		e := &entries[i]
		v := operationView{
			Location: e.Location, Kind: e.Kind.String(), State: e.State.String(), Number: e.Number, Attempts: e.Attempts,
			Started: e.Started, Ended: e.Ended, Wake: e.Wake, Size: e.Size,
		}
		if err := e.Err(); err != nil {
			v.Error = err.Error()
		}
		if err := e.Decode(&v.Value); err != nil {
			v.Value = nil // of another format
		}
		views[i] = v
	}
	return views
}
