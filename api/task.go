package api

import (
	"encoding/json"
	"time"

	"github.com/stet-run/stet"
)

// LeaseTasks is what a worker asks for.
type LeaseTasks struct {
	Worker  string   `json:"worker,omitempty"`   // names the worker
	Names   []string `json:"names"`              // of the tasks that it executes
	Max     int      `json:"max,omitempty"`      // for how many it has room: 1 to 100; default 1
	WaitMS  int64    `json:"wait_ms,omitempty"`  // for the first one: up to 60000; default: not at all
	LeaseMS int64    `json:"lease_ms,omitempty"` // 1000 to 3600000; default 30000
	Request string   `json:"request,omitempty"`  // a repeat with the same text gets the same leases
}

// TaskLeases is what a worker has got.
type TaskLeases struct {
	Tasks []LeasedTask `json:"tasks"`
	// Cancelled are leases of the worker whose tasks are wanted no more.
	Cancelled []string `json:"cancelled"`
}

// LeasedTask is an attempt of a task that a worker is to execute.
type LeasedTask struct {
	Lease     string            `json:"lease"` // a secret
	Name      string            `json:"name"`
	Input     json.RawMessage   `json:"input"`
	Attempt   int               `json:"attempt"` // from 1
	Key       string            `json:"key"`     // idempotency key of the step
	Run       string            `json:"run"`
	Workflow  string            `json:"workflow"`
	Location  string            `json:"location"`
	Headers   map[string]string `json:"headers,omitempty"`
	Queue     string            `json:"queue"`
	Detail    json.RawMessage   `json:"detail,omitempty"` // of the last heartbeat before
	ExpiresMS int64             `json:"expires_ms"`       // from now
}

// LeasedTaskOf returns the form of a task at a time of this process.
func LeasedTaskOf(t *stet.LeasedTask, now time.Time) LeasedTask {
	input := t.Input
	if input == nil {
		input = json.RawMessage("null")
	}
	return LeasedTask{Lease: t.Lease, Name: t.Name, Input: input, Attempt: t.Attempt, Key: t.Key, Run: t.RunID,
		Workflow: t.Workflow, Location: t.Location, Headers: t.Headers, Queue: t.Queue, Detail: t.Detail,
		ExpiresMS: remaining(t.Expires, now)}
}

func remaining(at, now time.Time) int64 { return max(at.Sub(now).Milliseconds(), 0) }

// TaskBeats renews leases.
type TaskBeats struct {
	Leases  []TaskBeat `json:"leases"`             // up to 100
	LeaseMS int64      `json:"lease_ms,omitempty"` // 1000 to 3600000; default 30000
}

// TaskBeat renews a lease.
type TaskBeat struct {
	Lease  string          `json:"lease"`
	Detail json.RawMessage `json:"detail,omitempty"` // for the next attempt
}

// TaskStates are how leases stand.
type TaskStates struct {
	Leases []TaskLease `json:"leases"`
}

// TaskLease is how a lease stands.
type TaskLease struct {
	Lease     string `json:"lease"`
	State     string `json:"state" words:"LeaseState"` // held, cancelled, gone or released
	ExpiresMS int64  `json:"expires_ms,omitempty"`
}

// TaskStatesOf returns the form of standings at a time of this process.
func TaskStatesOf(all []stet.LeaseStanding, now time.Time) *TaskStates {
	out := &TaskStates{Leases: []TaskLease{}}
	for _, s := range all {
		lease := TaskLease{Lease: s.Lease, State: string(s.State)}
		if s.State == stet.LeaseIsHeld {
			lease.ExpiresMS = remaining(s.Expires, now)
		}
		out.Leases = append(out.Leases, lease)
	}
	return out
}

// AppendItems adds items to streams of the run whose task a lease is.
type AppendItems struct {
	Lease  string     `json:"lease"`
	Number int64      `json:"number"` // of the request in its lease, from 1; a repeat with the same one adds nothing
	Items  []TaskItem `json:"items"`  // 1 to 1000
}

// TaskItem is an item for a stream.
type TaskItem struct {
	Stream string          `json:"stream"`
	Value  json.RawMessage `json:"value,omitempty"`
	Keep   int64           `json:"keep,omitempty"` // how many of the newest items the stream keeps; default: all
}

// AppendedItems is the answer to AppendItems.
type AppendedItems struct {
	Appended bool `json:"appended"`
}

// CompleteTask ends a task with its result.
type CompleteTask struct {
	Lease  string          `json:"lease"`
	Result json.RawMessage `json:"result,omitempty"`
}

// CompletedTask is the answer to CompleteTask.
type CompletedTask struct {
	Completed bool `json:"completed"`
}

// FailTask ends a task as failed.
type FailTask struct {
	Lease string      `json:"lease"`
	Error TaskFailure `json:"error"`
}

// TaskFailure is why a task has failed.
type TaskFailure struct {
	Message      string `json:"message"`
	Code         string `json:"code,omitempty"` // default: error
	Stack        string `json:"stack,omitempty"`
	Retryable    *bool  `json:"retryable,omitempty"`      // default: true
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"` // the least delay before the next attempt
}

// FailedTask is the answer to FailTask.
type FailedTask struct {
	Failed bool `json:"failed"`
	Retry  bool `json:"retry"` // another attempt follows, as far as is known
}

// ReleaseTasks gives leases back.
type ReleaseTasks struct {
	Leases []string `json:"leases"` // up to 100
}

// TaskList is the tasks of a queue.
type TaskList struct {
	Tasks []Task `json:"tasks"`
}

// Task is an attempt of a task that has not ended.
type Task struct {
	Queue      string    `json:"queue"`
	Name       string    `json:"name"`
	State      string    `json:"state" words:"TaskState"` // offered, leased or expired
	Run        string    `json:"run"`
	Location   string    `json:"location"`
	Attempt    int       `json:"attempt"`
	Key        string    `json:"key,omitempty"`
	Priority   int       `json:"priority,omitempty"`
	Worker     string    `json:"worker,omitempty"`
	Since      time.Time `json:"since"`
	Until      time.Time `json:"until,omitzero"`
	Lost       int       `json:"lost,omitempty"` // leases that have expired
	Cancelling bool      `json:"cancelling,omitempty"`
}

// TaskOf returns the form of a task.
func TaskOf(t *stet.TaskInfo) Task {
	return Task{t.Queue, t.Name, string(t.State), t.RunID, t.Location, t.Attempt, t.Key, t.Priority, t.Worker, t.Since,
		t.Until, t.Lost, t.Cancelling}
}
