package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// operation is an entry of a run's history as JSON.
type operation struct {
	Location string          `json:"location"`
	Kind     string          `json:"kind"`
	State    string          `json:"state"`
	Number   int64           `json:"number,omitempty"` // in the order of completions
	Attempts int             `json:"attempts,omitempty"`
	Started  time.Time       `json:"started,omitzero"`
	Ended    time.Time       `json:"ended,omitzero"`
	Wake     time.Time       `json:"wake,omitzero"`      // deadline, end of a sleep or next attempt
	Since    time.Time       `json:"executing,omitzero"` // when the attempt began that is executing
	Tried    time.Time       `json:"tried,omitzero"`     // end of the last attempt of an open step
	Size     int             `json:"size"`               // of what is stored, in bytes
	Value    json.RawMessage `json:"value,omitempty"`
	Messages []messageView   `json:"messages,omitempty"` // that a receive has consumed
	Run      string          `json:"run,omitempty"`      // of a child or an awaited run
	Topic    string          `json:"topic,omitempty"`    // of an event
	Event    string          `json:"event,omitempty"`    // its ID
	Error    *failureView    `json:"error,omitempty"`    // of an open step: of its last attempt
	Loop     *loopView       `json:"loop,omitempty"`     // of a loop, at its own location
	Undoable bool            `json:"undoable,omitempty"` // a completed step that carries a compensation
	Undone   bool            `json:"undone,omitempty"`   // which has succeeded

	born int64  // number of the completion before it
	on   string // node that executes it, if it is executing
}

// messageView is a message as JSON.
type messageView struct {
	Name  string          `json:"name"`
	Sent  time.Time       `json:"sent"`
	Value json.RawMessage `json:"value,omitempty"`
}

// loopView is the progress of a loop as JSON.
type loopView struct {
	Completed int64 `json:"completed"` // iterations
	Oldest    int64 `json:"oldest"`    // the first one whose history is kept
}

// operationsOf reads the history of a run, in the order of locations.
func operationsOf(ctx context.Context, e *stet.Engine, runID string) ([]operation, error) {
	entries, err := e.Runs().History(ctx, runID, stet.HistoryQuery{Values: true})
	if err != nil {
		return nil, err
	}
	operations := make([]operation, len(entries))
	for i := range entries {
		operations[i] = viewEntry(&entries[i])
	}
	return operations, nil
}

func viewEntry(e *stet.HistoryEntry) operation {
	o := operation{
		Location: e.Location, Kind: e.Kind.String(), State: e.State.String(), Number: e.Number,
		Attempts: e.Attempts, Started: e.Started, Ended: e.Ended, Wake: e.Wake, Size: e.Size,
		Run: e.Run, Topic: e.Topic, Event: e.Event, Undoable: e.Owes, Undone: e.Undone, Since: e.Executing,
		Tried: e.Tried, born: e.Born,
	}
	o.Value = valueJSON(e.Value().Bytes())
	if stet.Unreadable(e.Value().Bytes()) != nil {
		return o // the value says what is missing
	}
	messages, err := e.Messages()
	for i := range messages {
		m := &messages[i]
		o.Messages = append(o.Messages, messageView{m.Name, m.Sent, valueJSON(m.Value.Bytes())})
	}
	if err == nil {
		err = e.Err()
	}
	if err != nil {
		o.Error = viewError(err)
	} else if e.Loop != nil {
		o.Loop = &loopView{e.Loop.Completed, e.Loop.Oldest}
	}
	return o
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
		if len(o.Value) > 0 && string(o.Value) != "null" {
			text += ", last heartbeat: " + string(o.Value)
		}
		if o.Error != nil {
			text += "; before: " + o.Error.Message
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
	if o.Run != "" && o.Error == nil {
		text = strings.TrimSpace("run " + o.Run + " " + text)
	}
	return text
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
