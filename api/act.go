package api

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/stet-run/stet"
)

// Act asks for something of a run.
type Act struct {
	Reason   string `json:"reason,omitempty"`
	Children bool   `json:"children,omitempty"`  // of pause and resume: the children too, and theirs
	AnyBuild bool   `json:"any_build,omitempty"` // let a process of an earlier build take the run up
}

// Rewind asks for a run to go on from before a location; "/" is its beginning.
type Rewind struct {
	Act
	Before string `json:"before"`
}

// Fork asks for a new run from a copy of another's history before a location.
type Fork struct {
	Reason string `json:"reason,omitempty"`
	Before string `json:"before"`
	ID     string `json:"id,omitempty"` // of the new run; default: one that is made up
}

// Edit asks for the outcome of a step to be replaced by a result, or by an error.
type Edit struct {
	Act
	Step   string          `json:"step"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *string         `json:"error,omitempty"` // message of a failure, in place of a result
}

// Done is the answer to a request about a run.
type Done struct {
	Done bool `json:"done"` // the owner has granted it
	// Pending says that nobody has decided yet: the request stands.
	Pending bool `json:"pending,omitempty"`
}

// Deleted is the answer to a deletion.
type Deleted struct {
	Deleted []string `json:"deleted"` // the IDs, those of children before their parents'
}

// Preview is what a retry, rewind, edit or fork would do.
type Preview struct {
	ID        string   `json:"id"`
	From      string   `json:"from"`
	TakenBack []string `json:"taken_back,omitempty"`
	Owed      []string `json:"owed,omitempty"`
	Messages  int      `json:"messages,omitempty"`
	Cancelled []string `json:"cancelled,omitempty"`
	Retried   []string `json:"retried,omitempty"` // children, and theirs, that are retried with the run
}

// PreviewOf returns the form of a preview for a run.
func PreviewOf(id string, p *stet.Preview) *Preview {
	return &Preview{id, p.From, p.TakenBack, p.Owed, p.Messages, p.Cancelled, p.Retried}
}

// Start asks for a run.
type Start struct {
	Workflow string          `json:"workflow"`
	Input    json.RawMessage `json:"input,omitempty"` // default: null
	ID       string          `json:"id,omitempty"`    // default: one that is made up
	At       time.Time       `json:"at,omitzero"`     // begin no earlier
	AfterMS  int64           `json:"after_ms,omitempty"`
	// Existing says what becomes of the start if there is a run with the ID: use (the
	// default), refuse, replace-failed or replace-ended.
	Existing string       `json:"existing,omitempty"`
	Messages []FirstMsg   `json:"messages,omitempty"`
	Tags     stet.Tags    `json:"tags,omitempty"`
	Headers  stet.Headers `json:"headers,omitempty"`
	Queue    *QueuePlace  `json:"queue,omitempty"` // name, key and priority count
	Policy   *Policy      `json:"policy,omitempty"`
}

// FirstMsg is a message that a run has from its start on.
type FirstMsg struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Starts is one start, or an array of them, which are one commit.
type Starts struct {
	One  bool
	List []Start
}

// UnmarshalJSON reads an object or an array.
func (s *Starts) UnmarshalJSON(data []byte) error {
	decode := func(into any) error {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		return d.Decode(into)
	}
	if s.One = !bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")); s.One {
		s.List = make([]Start, 1)
		return decode(&s.List[0])
	}
	return decode(&s.List)
}

// MarshalJSON is the inverse of UnmarshalJSON.
func (s Starts) MarshalJSON() ([]byte, error) {
	if s.One {
		return json.Marshal(s.List[0])
	}
	return json.Marshal(s.List)
}

// Started is the answer to a start.
type Started struct {
	ID string `json:"id,omitempty"` // of the one run
	// Runs are the outcomes of an array of starts, in its order.
	Runs []StartedRun `json:"runs,omitempty"`
}

// StartedRun is the outcome of one of several starts.
type StartedRun struct {
	ID   string `json:"id,omitempty"`
	Code string `json:"code,omitempty"` // of the error; "": it is started
}

// Send asks for a message, an update or an event to be sent.
type Send struct {
	Value       json.RawMessage `json:"value,omitempty"` // default: null
	Headers     stet.Headers    `json:"headers,omitempty"`
	ExpiresInMS int64           `json:"expires_in_ms,omitempty"` // of a message
}

// Answer is the answer to an update; Pending: there is none yet.
type Answer struct {
	Answer  json.RawMessage `json:"answer,omitempty"`
	Pending bool            `json:"pending,omitempty"`
}

// Publish asks for an event of a topic. Settings that are left out are the topic's defaults.
type Publish struct {
	Send
	Mode        string `json:"mode,omitempty" words:"TopicMode"` // broadcast (the default) or consumed
	ExpiryMS    int64  `json:"expiry_ms,omitempty"`              // -1: none
	RetentionMS int64  `json:"retention_ms,omitempty"`           // -1: for ever
	Cap         int    `json:"cap,omitempty"`                    // -1: none
	CapBytes    int64  `json:"cap_bytes,omitempty"`              // -1: none
}

// Published is the answer to a publication.
type Published struct {
	ID string `json:"id"` // of the event
}

// Resolve assigns a value to a promise.
type Resolve struct {
	Token string          `json:"token"`
	Value json.RawMessage `json:"value,omitempty"` // default: null
	// Reason is kept with the promise.
	Reason string `json:"reason,omitempty"`
}

// Reject assigns a failure to a promise.
type Reject struct {
	Token   string `json:"token"`
	Message string `json:"message,omitempty"` // default: rejected
	// Reason is kept with the promise; the code does not see it.
	Reason string `json:"reason,omitempty"`
}

// Reason is why somebody asks for something.
type Reason struct {
	Reason string `json:"reason,omitempty"`
}

// SetQueue creates a queue, or overrides its settings.
type SetQueue struct {
	Limits
	Reason string `json:"reason,omitempty"`
	// Create declares the settings, as an application does; otherwise they override what is
	// declared, until they are reset.
	Create bool `json:"create,omitempty"`
}

// SetSchedule creates or changes a schedule.
type SetSchedule struct {
	Workflow  string          `json:"workflow"`
	Cron      string          `json:"cron,omitempty"`
	Zone      string          `json:"zone,omitempty"`
	EveryMS   int64           `json:"every_ms,omitempty"`
	OffsetMS  int64           `json:"offset_ms,omitempty"`
	Overlap   *stet.Overlap   `json:"overlap,omitempty"`
	CatchUpMS int64           `json:"catch_up_ms,omitempty"` // -1: however late
	Input     json.RawMessage `json:"input,omitempty"`
	Tags      stet.Tags       `json:"tags,omitempty"`
	Headers   stet.Headers    `json:"headers,omitempty"`
	Queue     *QueuePlace     `json:"queue,omitempty"`
	Policy    *Policy         `json:"policy,omitempty"`
	Paused    bool            `json:"paused,omitempty"`
	// Refuse refuses the request if there is another schedule of the name.
	Refuse bool   `json:"refuse_existing,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Backfill asks for the instants of a time to be started.
type Backfill struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Reason string    `json:"reason,omitempty"`
}

// Replay asks for a dead letter to be sent again.
type Replay struct {
	Run    string `json:"run,omitempty"` // default: the run that it was sent to
	Reason string `json:"reason,omitempty"`
}
