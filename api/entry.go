package api

import (
	"encoding/json"
	"time"

	"github.com/stet-run/stet"
)

// Entry is what is recorded of an operation of a run.
type Entry struct {
	Location string          `json:"location"`
	Kind     string          `json:"kind"`
	State    string          `json:"state"`
	Number   int64           `json:"number,omitempty"` // in the order of completions
	Born     int64           `json:"born,omitempty"`   // number of the completion after which the code asked for it
	Attempts int             `json:"attempts,omitempty"`
	Started  time.Time       `json:"started,omitzero"`
	Ended    time.Time       `json:"ended,omitzero"`
	Wake     time.Time       `json:"wake,omitzero"`      // deadline, end of a sleep or next attempt
	Since    time.Time       `json:"executing,omitzero"` // when the attempt began that is executing
	Tried    time.Time       `json:"tried,omitzero"`     // end of the last attempt of an open step
	Size     int             `json:"size"`               // of what is stored, in bytes
	Value    json.RawMessage `json:"value,omitempty"`
	Messages []Message       `json:"messages,omitempty"` // that a receive has consumed
	Run      string          `json:"run,omitempty"`      // of a child or an awaited run
	Topic    string          `json:"topic,omitempty"`    // of an event
	Event    string          `json:"event,omitempty"`    // its ID
	Error    *Failure        `json:"error,omitempty"`    // of an open step: of its last attempt
	Loop     *Loop           `json:"loop,omitempty"`     // of a loop, at its own location
	Undoable bool            `json:"undoable,omitempty"` // a completed step that carries a compensation
	Undone   bool            `json:"undone,omitempty"`   // which has succeeded
}

// Message is a message that a run has received.
type Message struct {
	Name  string          `json:"name"`
	Sent  time.Time       `json:"sent"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Loop is the progress of a loop.
type Loop struct {
	Completed int64 `json:"completed"` // iterations
	Oldest    int64 `json:"oldest"`    // the first one whose history is kept
}

// EntryOf returns the form of an entry. What its value says is there if it was read with
// values.
func EntryOf(e *stet.HistoryEntry) *Entry {
	o := &Entry{
		Location: e.Location, Kind: e.Kind.String(), State: e.State.String(), Number: e.Number, Born: e.Born,
		Attempts: e.Attempts, Started: e.Started, Ended: e.Ended, Wake: e.Wake, Size: e.Size,
		Run: e.Run, Topic: e.Topic, Event: e.Event, Undoable: e.Owes, Undone: e.Undone, Since: e.Executing,
		Tried: e.Tried,
	}
	o.Value = Value(e.Value().Bytes())
	if stet.Unreadable(e.Value().Bytes()) != nil {
		return o // the value says what is missing
	}
	messages, err := e.Messages()
	for i := range messages {
		m := &messages[i]
		o.Messages = append(o.Messages, Message{m.Name, m.Sent, Value(m.Value.Bytes())})
	}
	if err == nil {
		err = e.Err()
	}
	if err != nil {
		o.Error = FailureOf(err)
	} else if e.Loop != nil {
		o.Loop = &Loop{e.Loop.Completed, e.Loop.Oldest}
	}
	return o
}

// Edit edits values, messages, heartbeats and the texts of errors.
func (o *Entry) Edit(e Editor) {
	e.value(&o.Value)
	for i := range o.Messages {
		e.value(&o.Messages[i].Value)
	}
	o.Error.Edit(e)
}

// History is a page of the entries of a run, in the order of locations.
type History struct {
	Entries []*Entry `json:"entries"`
	// Next is the location after which the next page begins; "": this is the last.
	Next string `json:"next,omitempty"`
}
