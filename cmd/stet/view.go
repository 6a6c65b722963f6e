package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// runView is a run as JSON.
type runView struct {
	ID          string          `json:"id"`
	Number      store.RunNo     `json:"number"`
	Workflow    string          `json:"workflow"`
	Status      store.Status    `json:"status"`
	Marks       string          `json:"marks,omitempty"`
	Incarnation int             `json:"incarnation,omitempty"`
	Generation  int             `json:"generation,omitempty"`
	Build       string          `json:"build,omitempty"`
	Parent      store.RunNo     `json:"parent,omitempty"`
	ParentID    string          `json:"parent_id,omitempty"`
	Created     time.Time       `json:"created"`
	Started     time.Time       `json:"started,omitzero"`
	Ended       time.Time       `json:"ended,omitzero"`
	WakeAt      time.Time       `json:"wake_at,omitzero"`
	Input       json.RawMessage `json:"input,omitempty"`
	Output      json.RawMessage `json:"output,omitempty"`
	Error       *failureView    `json:"error,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Cause       stet.Cause      `json:"cause,omitempty"` // of a stalled run
	Owed        []string        `json:"owed,omitempty"`  // steps that a cancelled run has not undone
	WaitsFor    []stet.WaitInfo `json:"waits_for,omitempty"`
	Tags        stet.Tags       `json:"tags,omitempty"`
	Headers     stet.Headers    `json:"headers,omitempty"`
	Policy      *policyView     `json:"policy,omitempty"` // that its start has given it
	Queue       *queuePlaceView `json:"queue,omitempty"`
}

// queuePlaceView is where a run stands in its queue, as JSON.
type queuePlaceView struct {
	Name     string `json:"name"`
	Key      string `json:"key,omitempty"`
	Priority int    `json:"priority,omitempty"`
	Waits    bool   `json:"waits,omitempty"`
	Holds    bool   `json:"holds,omitempty"`
}

// viewOf returns the view of a run that was read with values.
func viewOf(info *stet.RunInfo) *runView {
	v := &runView{
		ID: info.ID, Number: info.Number, Workflow: info.Workflow, Status: info.Status, Marks: info.Marks.String(),
		Incarnation: info.Incarnation, Generation: info.Generation, Build: info.Build,
		Parent: info.Parent, ParentID: info.ParentID,
		Created: info.Created, Started: info.Started, Ended: info.Ended, WakeAt: info.Wake,
		Input: valueJSON(info.Input.Bytes()), Reason: info.Reason, Cause: info.Cause, WaitsFor: info.WaitsFor,
		Headers: info.Headers, Tags: info.Tags, Policy: viewPolicy(info.Policy),
	}
	if q := info.OnQueue; q != nil {
		v.Queue = &queuePlaceView{q.Name, q.Key, q.Priority, q.Waits, q.Holds}
	}
	switch info.Status {
	case store.Succeeded:
		v.Output = valueJSON(info.Output.Bytes())
	case store.Cancelled:
		if e := (*stet.RunError)(nil); errors.As(info.Err, &e) {
			v.Owed = e.Owed
		}
	}
	v.Error = runFailure(info)
	return v
}

// runFailure returns the view of the failure with which a run has ended or stalled, or nil.
func runFailure(info *stet.RunInfo) *failureView {
	if info.Status == store.Succeeded {
		return nil
	}
	if missing := stet.Unreadable(info.Output.Bytes()); missing != nil {
		return viewError(missing)
	}
	failure := (*stet.FailureRecord)(nil)
	if info.Status == store.Failed || errors.As(info.Err, &failure) {
		return viewError(info.Err)
	}
	return nil
}

// valueJSON returns a stored value without the byte that says that it is JSON;
// of another format it returns a JSON text that says so, and of no value nil.
func valueJSON(value []byte) json.RawMessage {
	if value == nil {
		return nil
	}
	if missing := stet.Unreadable(value); missing != nil {
		text, err := json.Marshal(missing.Error())
		if err != nil {
			return nil // a text always encodes
		}
		return text
	}
	if len(value) > 1 && value[0] == stet.JSON.Format() && json.Valid(value[1:]) {
		return value[1:]
	}
	text, err := json.Marshal(fmt.Sprintf("%d bytes of another format", len(value)))
	if err != nil {
		return nil // a text always encodes
	}
	return text
}

// failureView is an error as JSON, with those it wraps.
type failureView struct {
	Message  string         `json:"message"`
	Code     string         `json:"code,omitempty"`
	Location string         `json:"location,omitempty"` // of a step
	Attempts int            `json:"attempts,omitempty"`
	Stack    string         `json:"stack,omitempty"`
	Causes   []*failureView `json:"causes,omitempty"` // of a step: of its last attempts, oldest first
}

// viewError returns the view of an error: the whole failure, if it is one that is recorded.
func viewError(err error) *failureView {
	if failure := (*stet.FailureRecord)(nil); errors.As(err, &failure) {
		return viewFailure(failure)
	}
	return &failureView{Message: err.Error()}
}

func viewFailure(f *stet.FailureRecord) *failureView {
	v := &failureView{Message: f.Message, Code: f.Code, Location: f.Location, Attempts: f.Attempts, Stack: f.Stack}
	if f.Cause != nil {
		v.Causes = append(v.Causes, viewFailure(f.Cause))
	}
	for _, cause := range f.Causes {
		v.Causes = append(v.Causes, viewFailure(cause))
	}
	return v
}

// String returns the failure with its causes and stacks for people, in lines.
func (v *failureView) String() string {
	var text strings.Builder
	v.write(&text, "")
	return text.String()
}

func (v *failureView) write(text *strings.Builder, indent string) {
	lines := func(s string) {
		for line := range strings.Lines(strings.TrimSpace(s)) {
			fmt.Fprintf(text, "%s%s\n", indent, strings.TrimSuffix(line, "\n"))
		}
	}
	lines(v.Message)
	if v.Stack != "" {
		lines(v.Stack)
	}
	for i, cause := range v.Causes {
		if v.Attempts > 0 {
			fmt.Fprintf(text, "%sattempt %d:\n", indent, v.Attempts-len(v.Causes)+i+1)
			cause.write(text, indent+"  ")
			continue
		}
		for _, news := range cause.beyond(v.Message) {
			fmt.Fprintf(text, "%scaused by:\n", indent)
			news.write(text, indent+"  ")
		}
	}
}

// beyond returns the failure, or those of its causes that say more than the message.
func (v *failureView) beyond(message string) (news []*failureView) {
	if v.Stack != "" || v.Attempts > 0 || !strings.Contains(message, strings.TrimSpace(v.Message)) {
		return []*failureView{v}
	}
	for _, cause := range v.Causes {
		news = append(news, cause.beyond(message)...)
	}
	return news
}
