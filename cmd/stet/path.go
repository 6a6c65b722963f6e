package main

import (
	"context"
	"fmt"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

// pathView is the critical path of a run as JSON.
type pathView struct {
	ID    string         `json:"id"`
	From  time.Time      `json:"from"`
	To    time.Time      `json:"to"`
	Cut   bool           `json:"cut"`
	Path  []pathPartView `json:"path"`
	After float64        `json:"after_ms"`
	Spent []spentView    `json:"spent"`
}

type spentView struct {
	On    string  `json:"on"`
	Queue string  `json:"queue,omitempty"`
	Text  string  `json:"text"`
	Took  float64 `json:"took_ms"`
	Grows bool    `json:"grows,omitempty"`
}

type pathPartView struct {
	Location string    `json:"location"`
	Kind     string    `json:"kind"`
	State    string    `json:"state"`
	Began    time.Time `json:"began"`
	Before   float64   `json:"before_ms"`
	Took     float64   `json:"took_ms"`
}

// inMS returns microseconds in milliseconds.
func inMS(us int64) float64 { return float64(us) / 1e3 }

// showPaths prints the critical path of each run.
func (rc runCommands) showPaths(ctx context.Context, from side, ids []string) error {
	if err := rc.checkNoIDs(); err != nil {
		return err
	}
	var problems []error
	for i, id := range ids {
		if i > 0 && rc.output == formTable {
			fmt.Fprintln(rc.out)
		}
		shape, err := from.shape(ctx, id)
		if err == nil {
			err = rc.printPath(id, shape)
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
	return joinRuns(problems)
}

func (rc runCommands) printPath(id string, shape *api.Shape) error {
	if rc.output == formJSON {
		view := pathView{
			ID: id, From: shape.From, To: shape.To, Cut: shape.Cut, After: inMS(shape.After),
			Path: make([]pathPartView, len(shape.Path)),
		}
		for i, p := range shape.Path {
			view.Path[i] = pathPartView{
				p.Location, p.Kind, p.State, p.Began, inMS(p.Before), inMS(p.Took),
			}
		}
		view.Spent = make([]spentView, len(shape.Spent))
		for i, s := range shape.Spent {
			view.Spent[i] = spentView{s.On, s.Queue, s.Text, inMS(s.Took), s.Grows}
		}
		return rc.json(view)
	}
	if err := rc.print(pathTable(id, shape)); err != nil || len(shape.Spent) == 0 {
		return err
	}
	fmt.Fprintln(rc.out)
	return rc.print(spentTable(shape))
}

// spentTable returns the table of what the time of a path went to.
func spentTable(shape *api.Shape) *grid {
	total := shape.To.Sub(shape.From)
	g := &grid{headers: []string{"SPENT ON", "TIME", "SHARE"}}
	for _, s := range shape.Spent {
		text := s.Text
		if s.Grows {
			text += " (now)"
		}
		took := time.Duration(s.Took) * time.Microsecond
		g.add(printable(text), duration(took), share(took, total))
	}
	return g
}

// share returns a part of a time in percent.
func share(part, total time.Duration) string {
	if total <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(total))
}

// pathTable returns the table of a path: all of BEFORE and TOOK are the run's time.
func pathTable(id string, shape *api.Shape) *grid {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	total := shape.To.Sub(shape.From)
	const stateColumn = 2
	g := &grid{headers: []string{"OPERATION", "KIND", "STATE", "BEGAN", "BEFORE", "TOOK", "SHARE"}}
	if shape.Cut {
		g.add("(earlier operations are not recorded any more)", "", "", "", "", "", "")
	}
	for _, p := range shape.Path {
		g.add(printable(p.Location), p.Kind, p.State, moment(store.TimeOf(p.Began)),
			duration(us(p.Before)), duration(us(p.Took)), share(us(p.Before+p.Took), total))
	}
	if after := us(shape.After); after > 0 || len(shape.Path) == 0 {
		began := moment(store.TimeOf(shape.To.Add(-after)))
		g.add("(code after that)", "", "", began, "", duration(after), share(after, total))
	}
	g.add("run "+printable(id), "", "", moment(store.TimeOf(shape.From)), "", duration(total), share(total, total))
	g.style = func(row, column int) lipgloss.Style {
		if column == stateColumn && g.rows[row][column] == store.FailedEntry.String() {
			return lipgloss.NewStyle().Foreground(lipgloss.Red)
		}
		return lipgloss.NewStyle()
	}
	return g
}
