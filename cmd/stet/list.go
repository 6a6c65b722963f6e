package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
)

func (a *app) listCommand() *cobra.Command {
	var query, cursor string
	var limit int
	cmd := &cobra.Command{
		Use:     "ls [FILTER]",
		Aliases: []string{"list"},
		Short:   "list runs, newest first; FILTER is like 'workflow=a status=failed,stalled'",
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := store.ParseFilter(strings.Join(append(args, query), " "))
			if err != nil {
				return err
			}
			filter.Limit, filter.Cursor, filter.Values = limit, cursor, true
			return a.with(cmd.Context(), func(e *stet.Engine, _ *sqlite.Store) error {
				page, err := e.List(cmd.Context(), filter)
				if err != nil {
					return err
				}
				if err := a.runs(e, page.Runs); err != nil {
					return err
				}
				if page.Next != "" {
					fmt.Fprintf(a.err, "there are more: --cursor %s\n", page.Next)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&query, "query", "", "the same as FILTER")
	cmd.Flags().IntVar(&limit, "limit", store.DefaultPage, "runs at most")
	cmd.Flags().StringVar(&cursor, "cursor", "", "begin where a former page has ended")
	return cmd
}

// runs prints runs in the chosen form.
func (a *app) runs(e *stet.Engine, runs []store.Run) error {
	switch a.output {
	case "ids":
		for i := range runs {
			fmt.Fprintln(a.out, runs[i].ID)
		}
		return nil
	case "json":
		for i := range runs {
			if err := a.json(viewOf(e.Info(runs[i]))); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tWORKFLOW\tSTATUS\tCREATED\tTOOK\tDETAIL")
	for i := range runs {
		info := e.Info(runs[i])
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", info.ID, info.Workflow, statusText(&info.Run),
			info.Created.Time().Format(time.DateTime), took(&info.Run), detail(info))
	}
	return w.Flush()
}

func statusText(r *store.Run) string {
	if r.Marks != 0 {
		return r.Status.String() + " (" + r.Marks.String() + ")"
	}
	return r.Status.String()
}

// took is how long a run has taken, up to its end.
func took(r *store.Run) string {
	if r.Started == 0 || r.Ended == 0 {
		return "-"
	}
	return r.Ended.Sub(r.Started).Round(time.Millisecond).String()
}

// detail is what a listing says of a run in a few words.
func detail(info *stet.RunInfo) string {
	switch {
	case info.Err != nil && info.Status == store.Failed:
		return short(info.Err.Error(), 80)
	case info.Reason != "":
		return short(info.Reason, 80)
	case info.Status == store.Queued && info.WakeAt != 0:
		return "begins " + info.WakeAt.String()
	case len(info.WaitsFor) > 0:
		w := info.WaitsFor[0]
		text := "waits for " + w.Kind + " " + w.Location
		if !w.Until.IsZero() {
			text += " until " + w.Until.Format(time.RFC3339)
		}
		return text
	}
	return ""
}

// short cuts a text to a line of n characters.
func short(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}

func (a *app) json(v any) error { return json.NewEncoder(a.out).Encode(v) }

// runView is a run as JSON.
type runView struct {
	ID       string          `json:"id"`
	Number   store.RunNo     `json:"number"`
	Workflow string          `json:"workflow"`
	Status   store.Status    `json:"status"`
	Marks    string          `json:"marks,omitempty"`
	Build    string          `json:"build,omitempty"`
	Created  time.Time       `json:"created"`
	Started  time.Time       `json:"started,omitzero"`
	Ended    time.Time       `json:"ended,omitzero"`
	WakeAt   time.Time       `json:"wake_at,omitzero"`
	Input    json.RawMessage `json:"input,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"`
	Error    string          `json:"error,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	WaitsFor []stet.Wait     `json:"waits_for,omitempty"`
}

func viewOf(info *stet.RunInfo) runView {
	v := runView{
		ID: info.ID, Number: info.No, Workflow: info.Workflow, Status: info.Status, Marks: info.Marks.String(), Build: info.Build,
		Created: info.Created.Time(), Started: info.Started.Time(), Ended: info.Ended.Time(), WakeAt: info.WakeAt.Time(),
		Reason: info.Reason, WaitsFor: info.WaitsFor, Input: asJSON(info.Input),
	}
	if info.Status == store.Succeeded {
		v.Output = asJSON(info.Output)
	}
	if info.Err != nil {
		v.Error = info.Err.Error()
	}
	return v
}

// asJSON returns a stored value that is JSON, without the byte that says so, or
// a JSON text that says that it is something else.
func asJSON(stored []byte) json.RawMessage {
	switch {
	case stored == nil:
		return nil
	case len(stored) > 1 && stored[0] == stet.JSON.Format():
		return stored[1:]
	}
	text, err := json.Marshal(fmt.Sprintf("%d bytes of another format", len(stored)))
	if err != nil {
		return nil // a text always encodes
	}
	return text
}

func (a *app) countCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "count [FILTER]",
		Short: "count runs by workflow and status",
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := store.ParseFilter(strings.Join(args, " "))
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), func(e *stet.Engine, _ *sqlite.Store) error {
				tallies, err := e.Count(cmd.Context(), filter)
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
				if a.output == "table" {
					fmt.Fprintln(w, "WORKFLOW\tSTATUS\tRUNS")
				}
				for _, t := range tallies {
					if a.output == "json" {
						view := struct {
							Workflow string       `json:"workflow"`
							Status   store.Status `json:"status"`
							Runs     int64        `json:"runs"`
						}{t.Workflow, t.Status, t.Runs}
						if err := a.json(view); err != nil {
							return err
						}
						continue
					}
					fmt.Fprintf(w, "%s\t%s\t%d\n", t.Workflow, t.Status, t.Runs)
				}
				return w.Flush()
			})
		},
	}
}
