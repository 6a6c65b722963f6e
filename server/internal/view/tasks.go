package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

// ErrNotWork says that an identity may not lease tasks of a name.
var ErrNotWork = errors.New("the identity may not execute tasks of this name")

// milliseconds returns a duration that a request has in milliseconds. Package endpoint has refused more than it holds.
func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Tasks are the tasks of a store, as an identity may lease or see them.
type Tasks struct{ *View }

// Lease leases tasks, of names that the identity is bound to.
func (v Tasks) Lease(ctx context.Context, r api.LeaseTasks) (*api.TaskLeases, error) {
	for _, name := range r.Names {
		if !v.who.Works(name) {
			return nil, fmt.Errorf("task %q: %w", name, ErrNotWork)
		}
	}
	got, err := v.engine.Tasks().Lease(ctx, stet.LeaseRequest{Worker: r.Worker, Names: r.Names, Max: r.Max,
		Wait: milliseconds(r.WaitMS), For: milliseconds(r.LeaseMS), Request: r.Request, By: v.by()})
	if err != nil {
		return nil, unanswered(err)
	}
	now := time.Now()
	out := &api.TaskLeases{Tasks: []api.LeasedTask{}, Cancelled: append([]string{}, got.Cancelled...)}
	for i := range got.Tasks {
		out.Tasks = append(out.Tasks, api.LeasedTaskOf(&got.Tasks[i], now))
	}
	return out, nil
}

// by tells the workers of an identity from those of others: a name and a request are what they say of themselves. An
// identity with other names of tasks is another one.
func (v Tasks) by() string {
	text, err := json.Marshal([]any{v.who.Name, v.who.Role, slices.Sorted(slices.Values(v.who.Named))})
	if err != nil {
		panic(err) // texts always encode
	}
	return string(text)
}

// unanswered returns the error of a request that no node has answered as one that is to be
// repeated.
func unanswered(err error) error {
	if errors.Is(err, stet.ErrPending) {
		return fmt.Errorf("no node has answered: %s: %w", err.Error(), store.ErrUnavailable)
	}
	return err
}

// Beat renews leases.
func (v Tasks) Beat(ctx context.Context, r api.TaskBeats) (*api.TaskStates, error) {
	beats := make([]stet.TaskBeat, len(r.Leases))
	for i, b := range r.Leases {
		beats[i] = stet.TaskBeat{Lease: b.Lease, Detail: b.Detail}
	}
	all, err := v.engine.Tasks().Heartbeat(ctx, milliseconds(r.LeaseMS), beats...)
	if err != nil {
		return nil, unanswered(err)
	}
	return api.TaskStatesOf(all, time.Now()), nil
}

// Release gives leases back.
func (v Tasks) Release(ctx context.Context, leases []string) (*api.TaskStates, error) {
	all, err := v.engine.Tasks().Release(ctx, leases...)
	if err != nil {
		return nil, unanswered(err)
	}
	return api.TaskStatesOf(all, time.Now()), nil
}

// Append adds items to streams of a task's run.
func (v Tasks) Append(ctx context.Context, r api.AppendItems) error {
	items := make([]stet.TaskItem, len(r.Items))
	for i, it := range r.Items {
		items[i] = stet.TaskItem{Stream: it.Stream, Value: it.Value, Keep: stet.Keep(it.Keep)}
	}
	return unanswered(v.engine.Tasks().Append(ctx, r.Lease, r.Number, items...))
}

// Complete ends a task with its result.
func (v Tasks) Complete(ctx context.Context, r api.CompleteTask) error {
	return unanswered(v.engine.Tasks().Complete(ctx, r.Lease, r.Result))
}

// Fail ends a task as failed. retry reports whether another attempt follows.
func (v Tasks) Fail(ctx context.Context, r api.FailTask) (retry bool, err error) {
	f := &r.Error
	retry, err = v.engine.Tasks().Fail(ctx, r.Lease, stet.TaskFailure{Message: f.Message, Code: f.Code, Stack: f.Stack,
		Permanent: f.Retryable != nil && !*f.Retryable, After: milliseconds(f.RetryAfterMS)})
	return retry, unanswered(err)
}

// List returns the tasks of a queue, of runs that the identity sees.
func (v Tasks) List(ctx context.Context, queue string, most int) ([]api.Task, error) {
	if !v.who.SeesNamed("queue", queue) {
		return nil, notFound("queue", queue)
	}
	found, err := v.engine.Tasks().List(ctx, queue, most)
	if err != nil {
		return nil, err
	}
	out := []api.Task{}
	for i := range found {
		if v.who.Limited() && !v.sees(ctx, found[i].RunID) {
			continue
		}
		out = append(out, api.TaskOf(&found[i]))
	}
	return out, nil
}

// sees reports whether a run is within the limit.
func (v Tasks) sees(ctx context.Context, runID string) bool {
	_, err := v.find(ctx, runID)
	return err == nil
}
