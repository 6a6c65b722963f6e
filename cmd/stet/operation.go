package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

// operation is an entry of a run's history as it is printed.
type operation struct {
	api.Entry

	on   string // node that executes it, if it is executing
	mark string // that it has been executing for long; "": it has not
}

// operationsOf reads the history of a run, in the order of locations.
func operationsOf(ctx context.Context, e *stet.Engine, runID string) ([]operation, error) {
	entries, err := e.Runs().History(ctx, runID, stet.HistoryQuery{Values: true})
	if err != nil {
		return nil, err
	}
	operations := make([]operation, len(entries))
	for i := range entries {
		operations[i] = operation{Entry: *api.EntryOf(&entries[i])}
	}
	return operations, nil
}

// result returns the outcome of the operation, or what it waits for, in one line.
func (o *operation) result() string {
	var text string
	switch {
	case !o.Since.IsZero():
		text = fmt.Sprintf("executing since %s (attempt %d)", o.Since.Format(time.RFC3339), o.Attempts+1)
		if o.on != "" {
			text += " on " + o.on
		}
		text += o.mark
		if len(o.Value) > 0 && string(o.Value) != "null" {
			text += ", last heartbeat: " + string(o.Value)
		}
		if o.Error != nil {
			text += "; before: " + o.Error.Message
		}
	case o.wasCut():
		text = "its body had begun when it was withdrawn; "
		switch {
		case o.Ended.IsZero():
			text += "its end is not known"
		case o.Error != nil:
			text += "it failed: " + o.Error.Message
		default:
			text += "it succeeded, and its result was dropped"
		}
	case o.Error != nil:
		text = o.Error.Message
		if !o.Wake.IsZero() {
			text += ", again " + o.Wake.Format(time.RFC3339)
		}
	case o.Loop != nil:
		text = fmt.Sprintf("%d iterations", o.Loop.Completed)
		if o.Loop.Oldest > 0 {
			text += fmt.Sprintf(", kept from ~%d on", o.Loop.Oldest)
		}
	case o.Kind == store.KindLoop.String():
		text = "begins with " + string(o.Value)
	case len(o.Messages) > 0:
		values := make([]string, len(o.Messages))
		for i, m := range o.Messages {
			values[i] = m.Name + " " + string(m.Value)
			if m.By != "" {
				values[i] += " by " + m.By
			}
		}
		text = strings.Join(values, ", ")
	case o.State == store.Open.String() && !o.Wake.IsZero():
		text = "until " + o.Wake.Format(time.RFC3339)
	default:
		text = string(o.Value)
	}
	if o.Topic != "" && o.Error == nil {
		text = strings.TrimSpace("topic " + o.Topic + " " + text)
	}
	if o.By != "" {
		text += " by " + o.By
	}
	if o.Why != "" {
		text += " because of: " + o.Why
	}
	if o.Run != "" && o.Error == nil {
		text = strings.TrimSpace("run " + o.Run + " " + text)
	}
	return text
}

// wasCut reports whether the operation is a step that was withdrawn after a body of it had begun.
func (o *operation) wasCut() bool {
	return o.State == store.Withdrawn.String() && o.Kind == store.KindStep.String() && o.Attempts > 0
}

// state returns the state as tables show it.
func (o *operation) state() string {
	if o.Kind == store.KindLoop.String() {
		return "" // the state of its entry is not the loop's
	}
	if o.Undone {
		return o.State + ", undone"
	}
	return o.State
}

// took returns how long the operation has taken, up to its end or now.
func (o *operation) took(now time.Time) string {
	switch {
	case o.Kind == store.KindLoop.String():
		return ""
	case o.Started.IsZero() || o.Ended.IsZero() && o.State != store.Open.String():
		return ""
	case o.Ended.IsZero():
		return duration(now.Sub(o.Started))
	}
	return duration(o.Ended.Sub(o.Started))
}
