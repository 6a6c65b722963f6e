package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/location"
	"github.com/stet-run/stet/internal/stored"
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
	Wake     time.Time       `json:"wake,omitzero"` // deadline, end of a sleep or next attempt
	Size     int             `json:"size"`          // of what is stored, in bytes
	Value    json.RawMessage `json:"value,omitempty"`
	Messages []messageView   `json:"messages,omitempty"` // that a receive has consumed
	Run      string          `json:"run,omitempty"`      // of a child or an awaited run
	Topic    string          `json:"topic,omitempty"`    // of an event
	Event    string          `json:"event,omitempty"`    // its ID
	Error    *failureView    `json:"error,omitempty"`    // of an open step: of its last attempt
	Loop     *loopView       `json:"loop,omitempty"`     // of a loop, at its own location
	Undoable bool            `json:"undoable,omitempty"` // a completed step that carries a compensation
	Undone   bool            `json:"undone,omitempty"`   // which has succeeded
}

// messageView is a message as JSON.
type messageView struct {
	Name  string          `json:"name"`
	Sent  time.Time       `json:"sent"`
	Value json.RawMessage `json:"value,omitempty"`
}

// loopView is what a loop has committed, as JSON.
type loopView struct {
	Completed int64 `json:"completed"` // iterations
	Oldest    int64 `json:"oldest"`    // the first one whose history is kept
}

// operationsOf reads the history of a run, in the order of locations.
func operationsOf(ctx context.Context, s store.Store, run *stet.RunInfo, values bool) ([]operation, error) {
	entries, err := s.History(ctx, store.HistoryQuery{Run: run.Number, Incarnation: run.Incarnation, Values: values})
	if err != nil {
		return nil, fmt.Errorf("history of run %q: %w", run.ID, err)
	}
	operations := make([]operation, len(entries))
	for i := range entries {
		operations[i] = viewEntry(&entries[i])
	}
	owed := history.Owed(entries)
	for i := range entries {
		o := &operations[i]
		o.Undoable = entries[i].Owes && entries[i].State == store.Done
		o.Undone = o.Undoable && !slices.Contains(owed, o.Location)
	}
	return operations, nil
}

func viewEntry(e *store.Entry) operation {
	o := operation{
		Location: location.Loc(e.Loc).String(), Kind: e.Kind.String(), State: e.State.String(), Number: e.Seq,
		Attempts: e.Attempt, Started: e.Started.Time(), Wake: e.Wake.Time(), Size: e.Size,
	}
	if e.State == store.Done || e.State == store.FailedEntry {
		o.Ended = e.Ended.Time()
	}
	if unread(e.Value) != "" {
		o.Value = valueJSON(e.Value)
		return o
	}
	other := e.Kind == store.KindChild || e.Kind == store.KindRun
	if other && e.Value != nil {
		link, err := stored.DecodeLink(e.State, e.Value)
		if err != nil {
			o.Error = &failureView{Message: err.Error()}
			return o
		}
		o.Run, o.Value = link.RunID, valueJSON(link.Output)
	}
	switch {
	case e.Value == nil, other && e.State != store.FailedEntry:
	case e.State == store.FailedEntry:
		o.Error = failureOf(e.Value)
	case e.State == store.Open && e.Kind == store.KindLoop:
		p, err := stored.DecodeLoop(e.Value)
		if err != nil {
			o.Error = &failureView{Message: err.Error()}
		}
		o.Loop = &loopView{p.Completed, p.Oldest}
	case e.State == store.Open && (e.Kind == store.KindStep || e.Kind == store.KindUndo):
		progress, err := stored.DecodeProgress(e.Value)
		switch {
		case err != nil:
			o.Error = &failureView{Message: err.Error()}
		case len(progress.Causes) > 0:
			o.Error = viewFailure(progress.Causes[len(progress.Causes)-1])
		}
	case e.State == store.Done && e.Kind == store.KindReceive:
		messages, err := stored.DecodeReceipt(e.Value)
		if err != nil {
			o.Error = &failureView{Message: err.Error()}
		}
		for _, m := range messages {
			o.Messages = append(o.Messages, messageView{m.Name, m.Sent.Time(), valueJSON(m.Value)})
		}
	case e.Kind == store.KindEvent:
		if e.State == store.Done {
			viewDelivery(&o, e.Value)
		}
	case e.Kind == store.KindPublish:
		p, err := stored.DecodePublished(e.Value)
		if err != nil {
			o.Error = &failureView{Message: err.Error()}
		}
		o.Topic, o.Event = p.Topic, p.ID
	case e.State == store.Done:
		o.Value = valueJSON(e.Value)
	}
	return o
}

// viewDelivery shows the event that a wait has taken.
func viewDelivery(o *operation, value []byte) {
	topic, id, data, err := stored.DecodeEvent(value)
	if err != nil {
		o.Error = &failureView{Message: err.Error()}
		return
	}
	o.Topic, o.Event, o.Value = topic, id, valueJSON(data)
}

// result says in one line what came of the operation, or what it waits for.
func (o *operation) result() string {
	var text string
	switch {
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

// state is the state for people.
func (o *operation) state() string {
	if o.Kind == store.KindLoop.String() {
		return "" // that of its entry is not the loop's
	}
	if o.Undone {
		return o.State + ", undone"
	}
	return o.State
}

// took is how long the operation has taken, up to its end or now.
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
