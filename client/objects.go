package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

func (c *Client) put(ctx context.Context, path string, body any) error {
	return c.do(ctx, call{method: http.MethodPut, path: path, body: body})
}

func (c *Client) remove(ctx context.Context, path, reason string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path, body: api.Reason{Reason: reason}})
}

func (c *Client) because(ctx context.Context, path, reason string) error {
	_, err := post[api.Done](ctx, c, path, "", nil, api.Reason{Reason: reason})
	return err
}

// Queues returns the queues, by name.
func (c *Client) Queues(ctx context.Context) (*api.Queues, error) {
	return get[api.Queues](ctx, c, "queues", nil)
}

// Queue returns how a queue stands. stet.ErrNoQueue: there is none of the name.
func (c *Client) Queue(ctx context.Context, name string) (*api.Queue, error) {
	return get[api.Queue](ctx, c, path("queues", name), nil)
}

// SetQueue creates a queue, or overrides its settings.
func (c *Client) SetQueue(ctx context.Context, name string, q api.SetQueue) error {
	return c.put(ctx, path("queues", name), q)
}

// PauseQueue lets a queue grant no permits until it is resumed.
func (c *Client) PauseQueue(ctx context.Context, name, reason string) error {
	return c.because(ctx, path("queues", name, "pause"), reason)
}

// ResumeQueue lets a queue grant permits again.
func (c *Client) ResumeQueue(ctx context.Context, name, reason string) error {
	return c.because(ctx, path("queues", name, "resume"), reason)
}

// ResetQueue lets the declared settings of a queue count again.
func (c *Client) ResetQueue(ctx context.Context, name, reason string) error {
	return c.because(ctx, path("queues", name, "reset"), reason)
}

// DeleteQueue deletes a queue.
func (c *Client) DeleteQueue(ctx context.Context, name, reason string) error {
	return c.remove(ctx, path("queues", name), reason)
}

// Schedules returns the schedules, the newest first.
func (c *Client) Schedules(ctx context.Context) (*api.Schedules, error) {
	return get[api.Schedules](ctx, c, "schedules", nil)
}

// Schedule returns how a schedule stands. stet.ErrNotFound: there is none of the name.
func (c *Client) Schedule(ctx context.Context, name string) (*api.Schedule, error) {
	return get[api.Schedule](ctx, c, path("schedules", name), nil)
}

// SetSchedule makes or changes a schedule.
func (c *Client) SetSchedule(ctx context.Context, name string, s api.SetSchedule) error {
	return c.put(ctx, path("schedules", name), s)
}

// PauseSchedule lets a schedule start no runs until it is resumed.
func (c *Client) PauseSchedule(ctx context.Context, name, reason string) error {
	return c.because(ctx, path("schedules", name, "pause"), reason)
}

// ResumeSchedule lets a schedule start runs again.
func (c *Client) ResumeSchedule(ctx context.Context, name, reason string) error {
	return c.because(ctx, path("schedules", name, "resume"), reason)
}

// TriggerSchedule starts a run of a schedule now, and returns its ID.
func (c *Client) TriggerSchedule(ctx context.Context, name, reason string) (string, error) {
	started, err := post[api.Started](ctx, c, path("schedules", name, "trigger"), "", nil, api.Reason{Reason: reason})
	if err != nil {
		return "", err
	}
	return started.ID, nil
}

// BackfillSchedule starts the runs of a past time.
func (c *Client) BackfillSchedule(ctx context.Context, name string, b api.Backfill) error {
	_, err := post[api.Done](ctx, c, path("schedules", name, "backfill"), "", nil, b)
	return err
}

// DeleteSchedule deletes a schedule. Runs that it has started go on.
func (c *Client) DeleteSchedule(ctx context.Context, name, reason string) error {
	return c.remove(ctx, path("schedules", name), reason)
}

// Letters says which dead letters are wanted: none of the fields, all.
type Letters struct {
	Runs      []string // that they were sent to
	Workflows []string // of these runs
	Names     []string // of messages
}

// DeadLetters returns a page of the dead letters, newest first.
func (c *Client) DeadLetters(ctx context.Context, which Letters, p Page) (*api.Letters, error) {
	query := p.query()
	query["run"], query["workflow"], query["name"] = which.Runs, which.Workflows, which.Names
	return get[api.Letters](ctx, c, "deadletters", query)
}

func letter(number store.ItemNo) string {
	return "deadletters/" + strconv.FormatInt(int64(number), 10)
}

// ReplayDeadLetter sends a dead letter again.
func (c *Client) ReplayDeadLetter(ctx context.Context, number store.ItemNo, r api.Replay) error {
	_, err := post[api.Done](ctx, c, letter(number)+"/replay", "", nil, r)
	return err
}

// RemoveDeadLetter removes a dead letter.
func (c *Client) RemoveDeadLetter(ctx context.Context, number store.ItemNo, reason string) error {
	return c.remove(ctx, letter(number), reason)
}

// Topics returns the topics, by name.
func (c *Client) Topics(ctx context.Context) (*api.Topics, error) {
	return get[api.Topics](ctx, c, "topics", nil)
}

// Nodes returns the processes that work on the store.
func (c *Client) Nodes(ctx context.Context) (*api.Nodes, error) {
	return get[api.Nodes](ctx, c, "nodes", nil)
}

// DrainNode lets a node give its shards back.
func (c *Client) DrainNode(ctx context.Context, node, reason string) error {
	return c.because(ctx, path("nodes", node, "drain"), reason)
}

// Tokens returns the access tokens, without their secrets.
func (c *Client) Tokens(ctx context.Context) (*api.Tokens, error) {
	return get[api.Tokens](ctx, c, "tokens", nil)
}

// CreateToken creates an access token. Nobody can ask for its secret again.
func (c *Client) CreateToken(ctx context.Context, t api.CreateToken) (*api.CreatedToken, error) {
	return post[api.CreatedToken](ctx, c, "tokens", "", nil, t)
}

// RevokeToken revokes an access token by its ID.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path("tokens", id)})
}

// Subjects say what is followed: at least one of them.
type Subjects struct {
	Runs  []string // IDs: events run, entry and reset
	Lists []string // filters: event page, with the first page of each
	Nodes bool     // event nodes
	// Last is the ID of the last event that was seen: the stream goes on there. "": it begins.
	Last string
}

func (s Subjects) query() url.Values {
	query := url.Values{"run": s.Runs, "runs": s.Lists}
	if s.Nodes {
		query.Set("nodes", "true")
	}
	return query
}
