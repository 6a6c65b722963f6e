package api

import (
	"encoding/json"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// Topic is how a topic stands.
type Topic struct {
	Name     string      `json:"name"`
	Mode     string      `json:"mode" words:"TopicMode"`
	ExpiryMS int64       `json:"expiry_ms,omitempty"`    // 0: none
	RetainMS int64       `json:"retention_ms,omitempty"` // 0: for ever
	Cap      int         `json:"cap,omitempty"`          // 0: none
	CapBytes int64       `json:"cap_bytes,omitempty"`    // 0: none
	Accepted int64       `json:"accepted"`
	Received int64       `json:"received"`
	Pending  int64       `json:"pending"`
	Had      int64       `json:"had"` // of pending: what all runs have had, and the cap does not count
	InFlight int64       `json:"in_flight"`
	Expired  int64       `json:"expired"`
	Refused  int64       `json:"refused"`
	Bytes    int64       `json:"bytes"`     // of what is pending and in flight
	HadBytes int64       `json:"had_bytes"` // of them: what all runs have had, and cap_bytes does not count
	Waiting  int64       `json:"waiting"`
	Events   []*Event    `json:"events,omitempty"`
	Waits    []TopicWait `json:"waits,omitempty"`
	Lacks    string      `json:"lacks,omitempty"` // what its process lacks to read it
}

// Event is an event that a topic keeps.
type Event struct {
	ID       string          `json:"id"`
	Number   store.ItemNo    `json:"number"` // events are published in the order of their numbers
	Mode     string          `json:"mode" words:"TopicMode"`
	Sent     time.Time       `json:"sent"`
	Expires  time.Time       `json:"expires,omitzero"`
	Headers  stet.Headers    `json:"headers,omitempty"`
	Received int64           `json:"received,omitempty"`
	InFlight bool            `json:"in_flight,omitempty"`
	Size     int             `json:"size"`
	Value    json.RawMessage `json:"value,omitempty"`
}

// TopicWait is a wait of a run at a topic.
type TopicWait struct {
	Run      string    `json:"run"`
	Location string    `json:"location"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until,omitzero"`
}

// TopicOf returns the form of a topic, without events and waits.
func TopicOf(i *stet.TopicInfo) *Topic {
	return &Topic{
		Name: i.Name, Mode: i.Mode.String(), ExpiryMS: max(i.Expiry.Milliseconds(), 0),
		RetainMS: max(i.Retention.Milliseconds(), 0), Cap: max(i.Cap, 0), CapBytes: max(i.CapBytes, 0),
		Accepted: i.Accepted, Received: i.Received, Pending: i.Pending, Had: i.Had, InFlight: i.InFlight, Expired: i.Expired,
		Refused: i.Refused, Waiting: i.Waiting, Bytes: i.Bytes, HadBytes: i.HadBytes, Lacks: i.Lacks,
	}
}

// EventOf returns the form of an event.
func EventOf(i *stet.EventInfo) *Event {
	v := &Event{
		ID: i.ID, Number: i.Number, Mode: i.Mode.String(), Sent: i.Sent, Expires: i.Expires, Headers: i.Headers,
		Received: i.Received, InFlight: i.InFlight, Size: i.Size,
	}
	var value json.RawMessage
	if err := i.Decode(&value); err == nil && len(value) > 0 { // otherwise it is of another codec, or left out
		v.Value = value
	}
	return v
}

// TopicWaitsOf returns the waits of a run at a topic.
func TopicWaitsOf(run *stet.RunInfo, topic string) (waits []TopicWait) {
	for _, w := range run.WaitsFor {
		if w.Topic == topic {
			waits = append(waits, TopicWait{run.ID, w.Location, w.Since, w.Until})
		}
	}
	return waits
}

// Edit edits the value and the headers.
func (v *Event) Edit(e Editor) {
	e.value(&v.Value)
	e.headers(&v.Headers)
}

// Topics are all topics, by name.
type Topics struct {
	Topics []*Topic `json:"topics"`
}

// TopicEvents are the last events that a topic keeps, or a page of older ones, in the order in which they were
// published.
type TopicEvents struct {
	Events []*Event `json:"events"`
	// Next is the number before which the page of older events begins; 0: there are none.
	Next store.ItemNo `json:"next,omitempty"`
}
