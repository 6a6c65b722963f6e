package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

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

// Tasks returns the tasks of a queue that are offered or leased, at most limit of each; 0: 100.
// stet.ErrNoQueue: there is no queue of the name.
func (c *Client) Tasks(ctx context.Context, queue string, limit int) (*api.TaskList, error) {
	query := url.Values{}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return get[api.TaskList](ctx, c, path("queues", queue, "tasks"), query)
}

// OnQueue are the acts on a queue.
type OnQueue struct {
	c    *Client
	name string
}

// OnQueue returns the acts on a queue. It calls nobody yet.
func (c *Client) OnQueue(name string) OnQueue { return OnQueue{c, name} }

// Set creates the queue, or overrides its settings.
func (o OnQueue) Set(ctx context.Context, q api.SetQueue) error {
	return o.c.put(ctx, path("queues", o.name), q)
}

// Pause lets a queue grant no permits until it is resumed.
func (o OnQueue) Pause(ctx context.Context, reason string) error {
	return o.c.because(ctx, path("queues", o.name, "pause"), reason)
}

// Resume lets a queue grant permits again.
func (o OnQueue) Resume(ctx context.Context, reason string) error {
	return o.c.because(ctx, path("queues", o.name, "resume"), reason)
}

// Reset lets the declared settings of a queue count again.
func (o OnQueue) Reset(ctx context.Context, reason string) error {
	return o.c.because(ctx, path("queues", o.name, "reset"), reason)
}

// Delete deletes a queue.
func (o OnQueue) Delete(ctx context.Context, reason string) error {
	return o.c.remove(ctx, path("queues", o.name), reason)
}

// Schedules returns the schedules, the newest first.
func (c *Client) Schedules(ctx context.Context) (*api.Schedules, error) {
	return get[api.Schedules](ctx, c, "schedules", nil)
}

// Schedule returns how a schedule stands. stet.ErrNotFound: there is none of the name.
func (c *Client) Schedule(ctx context.Context, name string) (*api.Schedule, error) {
	return get[api.Schedule](ctx, c, path("schedules", name), nil)
}

// OnSchedule are the acts on a schedule.
type OnSchedule struct {
	c    *Client
	name string
}

// OnSchedule returns the acts on a schedule. It calls nobody yet.
func (c *Client) OnSchedule(name string) OnSchedule { return OnSchedule{c, name} }

// Set makes or changes the schedule.
func (o OnSchedule) Set(ctx context.Context, s api.SetSchedule) error {
	return o.c.put(ctx, path("schedules", o.name), s)
}

// Pause lets a schedule start no runs until it is resumed.
func (o OnSchedule) Pause(ctx context.Context, reason string) error {
	return o.c.because(ctx, path("schedules", o.name, "pause"), reason)
}

// Resume lets a schedule start runs again.
func (o OnSchedule) Resume(ctx context.Context, reason string) error {
	return o.c.because(ctx, path("schedules", o.name, "resume"), reason)
}

// Trigger starts a run of the schedule now, and returns its ID.
func (o OnSchedule) Trigger(ctx context.Context, reason string) (string, error) {
	started, err := post[api.Started](ctx, o.c, path("schedules", o.name, "trigger"), "", nil, api.Reason{Reason: reason})
	if err != nil {
		return "", err
	}
	return started.ID, nil
}

// Backfill starts the runs of a past time.
func (o OnSchedule) Backfill(ctx context.Context, b api.Backfill) error {
	_, err := post[api.Done](ctx, o.c, path("schedules", o.name, "backfill"), "", nil, b)
	return err
}

// Delete deletes a schedule. Runs that it has started go on.
func (o OnSchedule) Delete(ctx context.Context, reason string) error {
	return o.c.remove(ctx, path("schedules", o.name), reason)
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

// OnTopic are the reads of, and the acts on, a topic.
type OnTopic struct {
	c    *Client
	name string
}

// OnTopic returns the reads of, and the acts on, a topic. It calls nobody yet.
func (c *Client) OnTopic(name string) OnTopic { return OnTopic{c, name} }

// Info returns how the topic stands, and which runs wait at it. stet.ErrNotFound: nobody has
// used it.
func (o OnTopic) Info(ctx context.Context) (*api.Topic, error) {
	return get[api.Topic](ctx, o.c, path("topics", o.name), nil)
}

// Events returns the events that the topic keeps, in the order in which they were published.
func (o OnTopic) Events(ctx context.Context) (*api.TopicEvents, error) {
	return get[api.TopicEvents](ctx, o.c, path("topics", o.name, "events"), nil)
}

// Remove takes an event out of the topic. It returns false without an error if nobody has
// decided in time: the request stands.
func (o OnTopic) Remove(ctx context.Context, event, reason string, wait time.Duration) (bool, error) {
	var done api.Done
	err := o.c.do(ctx, call{
		method: http.MethodDelete, path: path("topics", o.name, "events", event), query: waitFor(wait),
		body: api.Reason{Reason: reason}, into: &done,
	})
	return done.Done, err
}

// Nodes returns the processes that work on the store.
func (c *Client) Nodes(ctx context.Context) (*api.Nodes, error) {
	return get[api.Nodes](ctx, c, "nodes", nil)
}

// Owners is Nodes, with the leases: which node owns which shard.
func (c *Client) Owners(ctx context.Context) (*api.Nodes, error) {
	return get[api.Nodes](ctx, c, "nodes", url.Values{"leases": {"true"}})
}

// DrainNode lets a node give its shards back.
func (c *Client) DrainNode(ctx context.Context, node, reason string) error {
	return c.because(ctx, path("nodes", node, "drain"), reason)
}

// Tokens returns the access tokens, without their secrets.
func (c *Client) Tokens(ctx context.Context) (*api.Tokens, error) {
	return get[api.Tokens](ctx, c, "tokens", nil)
}

// Acts select acts of the store's own audit: none of the fields, all.
type Acts struct {
	Who, Verb string // exactly
	About     string // what they are about begins so, as "queue mail"
}

// StoreAudit returns a page of what was done to the store and not to a run, newest first.
func (c *Client) StoreAudit(ctx context.Context, which Acts, p Page) (*api.Audits, error) {
	query := p.query()
	for name, value := range map[string]string{"who": which.Who, "verb": which.Verb, "about": which.About} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return get[api.Audits](ctx, c, "audit", query)
}

// CreateToken creates an access token. Nobody can ask for its secret again.
func (c *Client) CreateToken(ctx context.Context, t api.CreateToken) (*api.CreatedToken, error) {
	return post[api.CreatedToken](ctx, c, "tokens", "", nil, t)
}

// RevokeToken revokes an access token by its ID.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: path("tokens", id)})
}

// Hooks returns the webhooks, without their secrets.
func (c *Client) Hooks(ctx context.Context) (*api.Hooks, error) {
	return get[api.Hooks](ctx, c, "hooks", nil)
}

// SetHook makes a webhook of a name, or replaces the one that there is.
func (c *Client) SetHook(ctx context.Context, name string, h api.SetHook) error {
	return c.put(ctx, path("hooks", name), h)
}

// RemoveHook removes a webhook. stet.ErrNotFound: there is none of the name.
func (c *Client) RemoveHook(ctx context.Context, name, reason string) error {
	return c.remove(ctx, path("hooks", name), reason)
}

// Subjects say what is followed: at least one of them.
type Subjects struct {
	Runs  []string // IDs: events run, entry, inbox, value and reset
	Lists []string // filters: event page, with the first page of each
	// Streams are streams of runs, each the run's ID, a slash and the name: event item.
	Streams []string
	Nodes   bool // event nodes
	// Last is the ID of the last event that was seen: the stream goes on there. "": it begins.
	Last string
}

func (s Subjects) query() url.Values {
	query := url.Values{"run": s.Runs, "runs": s.Lists, "stream": s.Streams}
	if s.Nodes {
		query.Set("nodes", "true")
	}
	return query
}
