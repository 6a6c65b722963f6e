package resources

import (
	"context"
	"errors"
	"net/http"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/server/internal/view"
)

// tasks are the endpoints by which workers execute tasks.
type tasks struct{ *Server }

func (s tasks) table() []endpoint.Endpoint {
	return []endpoint.Endpoint{
		endpoint.New(http.MethodPost, "tasks/lease", access.Work, s.lease,
			"lease tasks; with wait_ms, as soon as there is one").IsLong(),
		endpoint.New(http.MethodPost, "tasks/heartbeat", access.Work, s.beat, "renew leases of tasks"),
		endpoint.New(http.MethodPost, "tasks/append", access.Work, s.append, "add items to streams of a task's run"),
		endpoint.New(http.MethodPost, "tasks/complete", access.Work, s.complete, "end a task with its result"),
		endpoint.New(http.MethodPost, "tasks/fail", access.Work, s.fail, "end a task as failed"),
		endpoint.New(http.MethodPost, "tasks/release", access.Work, s.release, "offer leased tasks again"),
		endpoint.New(http.MethodGet, "queues/{name}/tasks", access.Read, s.list,
			"the tasks of a queue that are offered or leased, and who holds them"),
	}
}

type leaseTasks struct {
	Body api.LeaseTasks `body:"lenient"`
}

func (s tasks) lease(ctx context.Context, c *endpoint.Call, in leaseTasks) (*api.TaskLeases, error) {
	got, err := view.Tasks{View: c.View}.Lease(ctx, in.Body)
	if errors.Is(err, view.ErrNotWork) {
		return nil, &endpoint.Error{Code: api.CodeForbidden, Detail: err.Error()}
	}
	return got, err
}

type taskBeats struct {
	Body api.TaskBeats `body:"lenient"`
}

func (s tasks) beat(ctx context.Context, c *endpoint.Call, in taskBeats) (*api.TaskStates, error) {
	return view.Tasks{View: c.View}.Beat(ctx, in.Body)
}

type appendItems struct {
	Body api.AppendItems `body:"lenient"`
}

func (s tasks) append(ctx context.Context, c *endpoint.Call, in appendItems) (*api.AppendedItems, error) {
	return &api.AppendedItems{Appended: true}, view.Tasks{View: c.View}.Append(ctx, in.Body)
}

type completeTask struct {
	Body api.CompleteTask `body:"lenient"`
}

func (s tasks) complete(ctx context.Context, c *endpoint.Call, in completeTask) (*api.CompletedTask, error) {
	return &api.CompletedTask{Completed: true}, view.Tasks{View: c.View}.Complete(ctx, in.Body)
}

type failTask struct {
	Body api.FailTask `body:"lenient"`
}

func (s tasks) fail(ctx context.Context, c *endpoint.Call, in failTask) (*api.FailedTask, error) {
	retry, err := view.Tasks{View: c.View}.Fail(ctx, in.Body)
	return &api.FailedTask{Failed: true, Retry: retry}, err
}

type releaseTasks struct {
	Body api.ReleaseTasks `body:"lenient"`
}

func (s tasks) release(ctx context.Context, c *endpoint.Call, in releaseTasks) (*api.TaskStates, error) {
	return view.Tasks{View: c.View}.Release(ctx, in.Body.Leases)
}

type listTasks struct {
	named
	Limit int `query:"limit" doc:"how many of each state at most, up to 1000; default 100"`
}

func (s tasks) list(ctx context.Context, c *endpoint.Call, in listTasks) (*api.TaskList, error) {
	most, err := limit(in.Limit, 100, 1000)
	if err != nil {
		return nil, err
	}
	found, err := view.Tasks{View: c.View}.List(ctx, in.Name, most)
	return &api.TaskList{Tasks: found}, err
}
