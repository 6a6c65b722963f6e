package api

import (
	"encoding/json"
	"time"

	"github.com/stet-run/stet"
)

// Entry is what is recorded of an operation of a run.
type Entry struct {
	Location string          `json:"location"`
	Kind     string          `json:"kind" words:"EntryKind"`
	State    string          `json:"state" words:"EntryState"`
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
	// Tries are the last failed attempts of a step or a compensation, oldest first, also if it
	// has succeeded since. Those before the number of the first one were left out.
	Tries    []Attempt `json:"attempt_times,omitempty"`
	Undoable bool      `json:"undoable,omitempty"` // a completed step that carries a compensation
	Undone   bool      `json:"undone,omitempty"`   // which has succeeded
	// By and Why say which identity has assigned a promise, and its reason.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
}

// Attempt is an attempt of a step, or of a compensation, that has failed.
type Attempt struct {
	Number  int       `json:"number"` // from 1
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
}

// byHeader and whyHeader are the headers that say who has sent something, and why.
const (
	byHeader  = "stet.by"
	whyHeader = "stet.why"
)

// Message is a message that a run has received.
type Message struct {
	Name  string          `json:"name"`
	Sent  time.Time       `json:"sent"`
	By    string          `json:"by,omitempty"` // the identity that has sent it, of its header stet.by
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
		Tried: e.Tried, By: e.By, Why: e.Why,
	}
	o.Value = Value(e.Value().Bytes())
	if stet.Unreadable(e.Value().Bytes()) != nil {
		return o // the value says what is missing
	}
	o.Tries = AttemptsOf(e)
	messages, err := e.Messages()
	for i := range messages {
		m := &messages[i]
		o.Messages = append(o.Messages, Message{m.Name, m.Sent, m.Headers[byHeader], Value(m.Value.Bytes())})
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

// AttemptsOf returns the form of the failed attempts of an entry that was read with values.
func AttemptsOf(e *stet.HistoryEntry) []Attempt {
	var tries []Attempt
	for _, f := range e.Failures {
		tries = append(tries, Attempt{f.Number, f.Began, f.Ended, f.Code, f.Message})
	}
	return tries
}

// Edit edits values, messages, heartbeats and the texts of errors and failed attempts.
func (o *Entry) Edit(e Editor) {
	for i := range o.Tries {
		e.text(&o.Tries[i].Message)
	}
	e.value(&o.Value)
	for i := range o.Messages {
		e.text(&o.Messages[i].By)
		e.value(&o.Messages[i].Value)
	}
	e.text(&o.By)
	e.text(&o.Why)
	o.Error.Edit(e)
}

// History is a page of the entries of a run, in the order of locations.
type History struct {
	Entries []*Entry `json:"entries"`
	// Next is the location after which the next page begins; "": this is the last.
	Next string `json:"next,omitempty"`
}
