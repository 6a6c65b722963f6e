package api

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// Run is how a run stands.
type Run struct {
	ID          string          `json:"id"`
	Number      store.RunNo     `json:"number"`
	Workflow    string          `json:"workflow"`
	Status      store.Status    `json:"status"`
	Marks       string          `json:"marks,omitempty"` // separated by commas: paused, cancelling, …
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
	Error       *Failure        `json:"error,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Cause       stet.Cause      `json:"cause,omitempty"` // of a stalled run
	Owed        []string        `json:"owed,omitempty"`  // steps that a cancelled run has not undone
	Why         []stet.Why      `json:"why,omitempty"`   // why it is as it is, the most important first
	WaitsFor    []stet.WaitInfo `json:"waits_for,omitempty"`
	Lacks       string          `json:"lacks,omitempty"` // what it needs to go on that no process has
	Tags        stet.Tags       `json:"tags,omitempty"`
	Headers     stet.Headers    `json:"headers,omitempty"`
	Policy      *Policy         `json:"policy,omitempty"` // that its start has given it
	Queue       *QueuePlace     `json:"queue,omitempty"`

	Group   string `json:"group,omitempty"` // of nodes that may execute it
	Slot    int    `json:"slot"`            // its owner has the lease of the shard GROUP/SLOT
	Suspect int    `json:"suspect,omitempty"`
	// ParentLocation is where its parent has started it; "": it is no child, or detached.
	ParentLocation string `json:"parent_location,omitempty"`
	InputSize      int    `json:"input_size,omitempty"` // as it is stored, in bytes
	OutputSize     int    `json:"output_size,omitempty"`

	// Refused says why a verb about the run is refused as it is now, by verb: cancel, terminate,
	// pause, resume, retry, rewind, edit, nudge, fork. A verb that is missing is allowed: its owner may
	// still refuse it at a location, or because of what has happened since.
	Refused map[string]string `json:"refused,omitempty"`
	// RewindBefore is the location before which a run can be rewound that has undone its steps,
	// and so cannot be retried. It is there when one run is read, and not in lists.
	RewindBefore string `json:"rewind_before,omitempty"`
}

// judged are the verbs on which Run.Refused has a ruling.
var judged = []store.ItemKind{
	store.ItemCancel, store.ItemTerminate, store.ItemPause, store.ItemResume, store.ItemRetry, store.ItemRewind,
	store.ItemEdit, store.ItemNudge,
}

// QueuePlace is where a run stands in its queue.
type QueuePlace struct {
	Name     string `json:"name"`
	Key      string `json:"key,omitempty"`
	Priority int    `json:"priority,omitempty"`
	Waits    bool   `json:"waits,omitempty"`
	Holds    bool   `json:"holds,omitempty"`
}

// Policy is what a start, or a schedule, says of its runs in place of the definition.
type Policy struct {
	MaxRunTimeMS    int64  `json:"max_run_time_ms,omitempty"`   // -1: without limit
	MaxSuspensionMS int64  `json:"max_suspension_ms,omitempty"` // -1: without limit
	OnFailure       string `json:"on_failure,omitempty"`        // end or stall
	OnBug           string `json:"on_bug,omitempty"`            // stall or fail
	// How long it is kept after its end. -1: for ever; -2: deleted at once.
	KeepSucceededMS int64 `json:"keep_succeeded_ms,omitempty"`
	KeepFailedMS    int64 `json:"keep_failed_ms,omitempty"`
	KeepCancelledMS int64 `json:"keep_cancelled_ms,omitempty"`
}

// PolicyOf returns the form of a policy, nil if it leaves all as it is defined.
func PolicyOf(p stet.RunPolicy) *Policy {
	if p == (stet.RunPolicy{}) {
		return nil
	}
	ms := func(d time.Duration) int64 {
		if d < 0 {
			return int64(d) // None, AtOnce
		}
		return d.Milliseconds()
	}
	return &Policy{
		MaxRunTimeMS: ms(p.MaxRunTime), MaxSuspensionMS: ms(p.MaxSuspension),
		OnFailure:       word(p.OnFailure),
		OnBug:           word(p.OnBug),
		KeepSucceededMS: ms(p.Retention.Succeeded), KeepFailedMS: ms(p.Retention.Failed),
		KeepCancelledMS: ms(p.Retention.Cancelled),
	}
}

// word returns the text of a word of package stet; the zero one is as it is defined, and "".
func word(v encoding.TextMarshaler) string {
	text, err := v.MarshalText()
	if err != nil {
		return ""
	}
	return string(text)
}

// RunPolicy is the inverse of PolicyOf.
func (p *Policy) RunPolicy() stet.RunPolicy {
	if p == nil {
		return stet.RunPolicy{}
	}
	duration := func(ms int64) time.Duration {
		if ms < 0 {
			return time.Duration(ms) // None, AtOnce
		}
		return time.Duration(ms) * time.Millisecond
	}
	var onFailure stet.OnFailure
	var onBug stet.OnBug
	_ = onFailure.UnmarshalText([]byte(p.OnFailure)) // "" is as it is defined; Options refuses what is no word
	_ = onBug.UnmarshalText([]byte(p.OnBug))
	return stet.RunPolicy{
		MaxRunTime: duration(p.MaxRunTimeMS), MaxSuspension: duration(p.MaxSuspensionMS),
		OnFailure: onFailure, OnBug: onBug,
		Retention: stet.Retention{
			Succeeded: duration(p.KeepSucceededMS), Failed: duration(p.KeepFailedMS), Cancelled: duration(p.KeepCancelledMS),
		},
	}
}

// PolicyOption is an option of a start and of a schedule.
type PolicyOption interface {
	stet.StartOption
	stet.ScheduleOption
}

// Options returns the options that make the policy. Of nil there are none. The error wraps
// stet.ErrInvalid.
func (p *Policy) Options() (options []PolicyOption, err error) {
	if p == nil {
		return nil, nil
	}
	whole := p.RunPolicy()
	if p.MaxRunTimeMS != 0 {
		options = append(options, stet.MaxRunTime(whole.MaxRunTime))
	}
	if p.MaxSuspensionMS != 0 {
		options = append(options, stet.MaxSuspension(whole.MaxSuspension))
	}
	if whole.Retention != (stet.Retention{}) {
		options = append(options, whole.Retention)
	}
	bad := func(what, expected, found string) error {
		return fmt.Errorf("%s: expected %s, found %.100q: %w", what, expected, found, stet.ErrInvalid)
	}
	switch p.OnFailure {
	case "":
	case "end":
		options = append(options, stet.EndOnFailure)
	case "stall":
		options = append(options, stet.StallOnFailure)
	default:
		return nil, bad("on_failure", "end or stall", p.OnFailure)
	}
	switch p.OnBug {
	case "":
	case "stall":
		options = append(options, stet.StallOnBug)
	case "fail":
		options = append(options, stet.FailOnBug)
	default:
		return nil, bad("on_bug", "stall or fail", p.OnBug)
	}
	return options, nil
}

// RunOf returns the form of a run. Input, output, error and waits are there if it was read
// with values.
func RunOf(info *stet.RunInfo) *Run {
	v := &Run{
		ID: info.ID, Number: info.Number, Workflow: info.Workflow, Status: info.Status, Marks: info.Marks.String(),
		Incarnation: info.Incarnation, Generation: info.Generation, Build: info.Build,
		Parent: info.Parent, ParentID: info.ParentID,
		Created: info.Created, Started: info.Started, Ended: info.Ended, WakeAt: info.Wake,
		Input: Value(info.Input.Bytes()), Reason: info.Reason, Cause: info.Cause, Why: info.Why, WaitsFor: info.WaitsFor,
		Headers: info.Headers, Tags: info.Tags, Policy: PolicyOf(info.Policy),
		Group: info.Shard.Group, Slot: info.Shard.Slot, Suspect: info.Suspect, ParentLocation: info.ParentLocation,
		InputSize: info.InputSize, OutputSize: info.OutputSize,
	}
	if q := info.OnQueue; q != nil {
		v.Queue = &QueuePlace{q.Name, q.Key, q.Priority, q.Waits, q.Holds}
	}
	switch info.Status {
	case store.Succeeded:
		v.Output = Value(info.Output.Bytes())
	case store.Cancelled:
		if e := (*stet.RunError)(nil); errors.As(info.Err, &e) {
			v.Owed = e.Owed
		}
	}
	v.Error = RunFailure(info)
	if info.Unserved != nil {
		v.Lacks = info.Unserved.Error()
	}
	for _, verb := range judged {
		v.refuse(verb.String(), info.Refusal(verb))
	}
	// A fork is ruled like a rewind, except that a run may be forked that a later one has replaced.
	forked := *info
	forked.ID = strings.TrimSuffix(info.ID, fmt.Sprintf("@%d", info.Number))
	v.refuse("fork", forked.Refusal(store.ItemRewind))
	return v
}

// refuse notes the reason of a refusal, without the sentinel. With nil it does nothing.
func (r *Run) refuse(verb string, err error) {
	if err == nil {
		return
	}
	if r.Refused == nil {
		r.Refused = map[string]string{}
	}
	text := strings.TrimPrefix(err.Error(), stet.ErrRefused.Error()+": ")
	r.Refused[verb] = strings.TrimSuffix(text, ": "+stet.ErrTerminal.Error())
}

// RunFailure returns the failure with which a run has ended or stalled, or nil.
func RunFailure(info *stet.RunInfo) *Failure {
	if info.Status == store.Succeeded || info.Err == nil {
		return nil
	}
	if missing := stet.Unreadable(info.Output.Bytes()); missing != nil {
		return FailureOf(missing)
	}
	failure := (*stet.FailureRecord)(nil)
	if info.Status == store.Failed || errors.As(info.Err, &failure) {
		return FailureOf(info.Err)
	}
	return nil
}

// Edit edits what only readers of values may see: input, output, headers, and the texts of
// the errors and of the reason, which may quote them.
func (r *Run) Edit(e Editor) {
	e.value(&r.Input)
	e.value(&r.Output)
	e.headers(&r.Headers)
	r.Error.Edit(e)
	e.text(&r.Reason)
	r.Why, r.WaitsFor = slices.Clone(r.Why), slices.Clone(r.WaitsFor) // others may have them
	for i := range r.Why {
		e.text(&r.Why[i].Quote)
	}
	for i := range r.WaitsFor {
		e.text(&r.WaitsFor[i].Error)
	}
}

// Runs is a page of runs.
type Runs struct {
	Runs []*Run `json:"runs"`
	// Next is the cursor of the next page; "": this is the last.
	Next string `json:"next,omitempty"`
}

// Count is how many runs of a workflow, with a status, match.
type Count struct {
	Workflow string       `json:"workflow"`
	Status   store.Status `json:"status"`
	Runs     int64        `json:"runs"`
}

// CountOf returns the form of a tally.
func CountOf(t store.Tally) Count { return Count{t.Workflow, t.Status, t.Runs} }

// Tally is a number of runs, by status or by workflow.
type Tally struct {
	Workflow string `json:"workflow,omitempty"`
	Status   string `json:"status,omitempty" words:"Status"`
	Runs     int64  `json:"runs"`
	// More says that there are more than Runs: counting has ended there.
	More bool `json:"more,omitempty"`
}

// Counts is the answer to a question for numbers of runs.
type Counts struct {
	Counts []Tally `json:"counts"`
}

// Over reports whether the run has ended or is stalled.
func (r *Run) Over() bool { return r.Status.Terminal() || r.Status == store.Stalled }
