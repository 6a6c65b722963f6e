package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stet-run/stet/api"
)

// Info returns what the server serves, and who the client is for it.
func (c *Client) Info(ctx context.Context) (*api.Info, error) {
	return get[api.Info](ctx, c, "info", nil)
}

// Runs returns a page of the runs that match a filter in its text form, newest first.
func (c *Client) Runs(ctx context.Context, query string, p Page) (*api.Runs, error) {
	values := p.query()
	if query != "" {
		values.Set("query", query)
	}
	return get[api.Runs](ctx, c, "runs", values)
}

// Count counts the runs that match a filter, by workflow and status.
func (c *Client) Count(ctx context.Context, query string) (*api.Counts, error) {
	values := url.Values{}
	if query != "" {
		values.Set("query", query)
	}
	return get[api.Counts](ctx, c, "counts", values)
}

// Run returns how a run stands. stet.ErrNotFound: there is none with the ID.
func (c *Client) Run(ctx context.Context, id string) (*api.Run, error) {
	return get[api.Run](ctx, c, path("runs", id), nil)
}

// Wait returns a run once it has ended or stalled. It asks again and again, until ctx ends.
func (c *Client) Wait(ctx context.Context, id string) (*api.Run, error) {
	for {
		run, err := get[api.Run](ctx, c, path("runs", id), waitFor(30*time.Second))
		if err != nil || run.Over() {
			return run, err
		}
	}
}

// History returns a page of what is recorded of a run, with values: after a location, ""
// for the first page.
func (c *Client) History(ctx context.Context, id, after string, limit int) (*api.History, error) {
	query := Page{Limit: limit}.query()
	if after != "" {
		query.Set("after", after)
	}
	return get[api.History](ctx, c, path("runs", id, "history"), query)
}

// Shape returns the groups of a run's operations, and its critical path.
func (c *Client) Shape(ctx context.Context, id string) (*api.Shape, error) {
	return get[api.Shape](ctx, c, path("runs", id, "shape"), nil)
}

// Audit returns what operators did to a run.
func (c *Client) Audit(ctx context.Context, id string) (*api.Audits, error) {
	return get[api.Audits](ctx, c, path("runs", id, "audit"), nil)
}

// Inbox returns what a run has not taken.
func (c *Client) Inbox(ctx context.Context, id string) (*api.Inbox, error) {
	return get[api.Inbox](ctx, c, path("runs", id, "inbox"), nil)
}

// Children returns a page of the children of a run.
func (c *Client) Children(ctx context.Context, id string, p Page) (*api.Runs, error) {
	return get[api.Runs](ctx, c, path("runs", id, "children"), p.query())
}

// Shown returns the values and streams that a run shows.
func (c *Client) Shown(ctx context.Context, id string) (*api.Shown, error) {
	return get[api.Shown](ctx, c, path("runs", id, "values"), nil)
}

// Items returns items of a stream after a position.
func (c *Client) Items(ctx context.Context, id, stream string, after int64, limit int) (*api.StreamItems, error) {
	query := Page{Limit: limit}.query()
	query.Set("after", strconv.FormatInt(after, 10))
	return get[api.StreamItems](ctx, c, path("runs", id, "streams", stream), query)
}

// Promises returns the promises of a run.
func (c *Client) Promises(ctx context.Context, id string) (*api.Promises, error) {
	return get[api.Promises](ctx, c, path("runs", id, "promises"), nil)
}

// Preview returns what a verb would do to a run: retry, rewind before a location, or edit of
// the step at one.
func (c *Client) Preview(ctx context.Context, id, verb, at string) (*api.Preview, error) {
	query := url.Values{"verb": {verb}}
	if at != "" {
		query.Set("before", at)
	}
	return get[api.Preview](ctx, c, path("runs", id, "preview"), query)
}

// Value returns one value of a run as JSON: its input, its output, or that of the entry at a
// location.
func (c *Client) Value(ctx context.Context, id, place string) (json.RawMessage, error) {
	q := call{method: http.MethodGet, path: path("runs", id, "value"), query: url.Values{"at": {place}}}
	answer, err := c.send(ctx, q)
	if err != nil {
		return nil, err
	}
	return read(answer)
}

// Start starts a run and returns its ID. With a key and without an ID, the same start gives
// the same run; "" is no key.
func (c *Client) Start(ctx context.Context, key string, s api.Start) (id string, err error) {
	started, err := post[api.Started](ctx, c, "runs", key, nil, s)
	if err != nil {
		return "", err
	}
	return started.ID, nil
}

// StartAll starts runs of one workflow, up to 1,000, in one commit.
func (c *Client) StartAll(ctx context.Context, starts []api.Start) ([]api.StartedRun, error) {
	started, err := post[api.Started](ctx, c, "runs", "", nil, api.Starts{List: starts})
	if err != nil {
		return nil, err
	}
	return started.Runs, nil
}

// Send sends a message to a run. Equal keys give one delivery; "" is no key.
func (c *Client) Send(ctx context.Context, id, name, key string, s api.Send) error {
	_, err := post[api.Done](ctx, c, path("runs", id, "messages", name), key, nil, s)
	return err
}

// Update sends an update to a run and returns the answer; pending: there is none in time.
func (c *Client) Update(
	ctx context.Context, id, name, key string, s api.Send, wait time.Duration,
) (answer json.RawMessage, pending bool, err error) {
	a, err := post[api.Answer](ctx, c, path("runs", id, "updates", name), key, waitFor(wait), s)
	if err != nil {
		return nil, false, err
	}
	return a.Answer, a.Pending, nil
}

// The verbs that take an api.Act alone.
const (
	Cancel    = "cancel"
	Terminate = "terminate"
	Pause     = "pause"
	Resume    = "resume"
	Nudge     = "nudge"
	Retry     = "retry"
)

// Act asks for something of a run by one of the verbs. It returns false without an error if
// nobody has decided in time: the request stands. stet.ErrRefused: the owner has refused it.
func (c *Client) Act(ctx context.Context, verb, id string, act api.Act, wait time.Duration) (bool, error) {
	return c.verb(ctx, verb, id, act, wait)
}

// Rewind is Act for a rewind.
func (c *Client) Rewind(ctx context.Context, id string, r api.Rewind, wait time.Duration) (bool, error) {
	return c.verb(ctx, "rewind", id, r, wait)
}

// Edit is Act for an edit.
func (c *Client) Edit(ctx context.Context, id string, e api.Edit, wait time.Duration) (bool, error) {
	return c.verb(ctx, "edit", id, e, wait)
}

func (c *Client) verb(ctx context.Context, verb, id string, body any, wait time.Duration) (bool, error) {
	done, err := post[api.Done](ctx, c, path("runs", id, verb), "", waitFor(wait), body)
	if err != nil {
		return false, err
	}
	return done.Done, nil
}

// Fork starts a run from a copy of another's history and returns its ID. The same key, run and
// location make the same fork: with another Before the key makes another one, and nothing says so.
// "" is no key; where f has an ID, that tells forks apart, and the key counts for nothing.
func (c *Client) Fork(ctx context.Context, id, key string, f api.Fork) (string, error) {
	started, err := post[api.Started](ctx, c, path("runs", id, "fork"), key, nil, f)
	if err != nil {
		return "", err
	}
	return started.ID, nil
}

// Delete deletes a run that has ended and returns the IDs of those deleted.
func (c *Client) Delete(ctx context.Context, id string, act api.Act) ([]string, error) {
	var deleted api.Deleted
	q := call{method: http.MethodDelete, path: path("runs", id), body: act, into: &deleted}
	err := c.do(ctx, q)
	return deleted.Deleted, err
}

// Deletable returns the IDs of the runs that Delete would delete. Nothing happens.
func (c *Client) Deletable(ctx context.Context, id string, children bool) ([]string, error) {
	query := url.Values{"children": {strconv.FormatBool(children)}}
	d, err := get[api.Deleted](ctx, c, path("runs", id, "deletable"), query)
	if err != nil {
		return nil, err
	}
	return d.Deleted, nil
}

// Deletions returns which runs were deleted, the newest first.
func (c *Client) Deletions(ctx context.Context) (*api.Deletions, error) {
	return get[api.Deletions](ctx, c, "deletions", nil)
}

// Resolve assigns a value to a promise.
func (c *Client) Resolve(ctx context.Context, r api.Resolve) error {
	_, err := post[api.Done](ctx, c, "promises/resolve", "", nil, r)
	return err
}

// Reject assigns a failure to a promise.
func (c *Client) Reject(ctx context.Context, r api.Reject) error {
	_, err := post[api.Done](ctx, c, "promises/reject", "", nil, r)
	return err
}

// Publish publishes an event and returns its ID. Equal keys give one event; "" is no key.
func (c *Client) Publish(ctx context.Context, topic, key string, p api.Publish) (string, error) {
	published, err := post[api.Published](ctx, c, path("topics", topic, "events"), key, nil, p)
	if err != nil {
		return "", err
	}
	return published.ID, nil
}
