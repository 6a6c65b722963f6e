package resources

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/schedule"
	"github.com/stet-run/stet/server/internal/endpoint"
	"github.com/stet-run/stet/store"
)

// named is a topic, a queue, a schedule or a node.
type named struct {
	Name string `path:"name" doc:"its name"`
}

// because is a request about one of them.
type because struct {
	named
	Body api.Reason `body:""`
}

func done(err error) (*api.Done, error) {
	if err != nil {
		return nil, err
	}
	return &api.Done{Done: true}, nil
}

func (s *Server) topics(ctx context.Context, c *endpoint.Call, _ nothing) (api.Topics, error) {
	topics, err := c.View.Topics(ctx)
	return api.Topics{Topics: topics}, err
}

func (s *Server) topic(ctx context.Context, c *endpoint.Call, in named) (*api.Topic, error) {
	return c.View.Topic(ctx, in.Name)
}

type listEvents struct {
	named
	Limit  int   `query:"limit" doc:"events in a page, the last ones, up to 1000, which is the default"`
	Before int64 `query:"before" doc:"next of the page before: only events with a lower number"`
	Number int64 `query:"number" doc:"only the event of this number, with its value, however large it is"`
}

func (s *Server) topicEvents(ctx context.Context, c *endpoint.Call, in listEvents) (*api.TopicEvents, error) {
	size, err := limit(in.Limit, maxRuns, maxRuns)
	if err != nil {
		return nil, err
	}
	if in.Before < 0 || in.Number < 0 || in.Number == math.MaxInt64 {
		return nil, invalid("before, number: expected numbers of events, found %d, %d", in.Before, in.Number)
	}
	if in.Number > 0 {
		events, _, err := c.View.Events(ctx, in.Name, store.ItemNo(in.Number)+1, 1, true)
		events = slices.DeleteFunc(events, func(e *api.Event) bool { return e.Number != store.ItemNo(in.Number) })
		return &api.TopicEvents{Events: events}, err
	}
	events, older, err := c.View.Events(ctx, in.Name, store.ItemNo(in.Before), size, false)
	page := &api.TopicEvents{Events: events}
	if older {
		page.Next = events[0].Number
	}
	return page, err
}

type publish struct {
	named
	Key  string      `header:"Idempotency-Key" doc:"one key of an identity is one event; another value is refused"`
	Body api.Publish `body:""`
}

func (s *Server) publish(ctx context.Context, c *endpoint.Call, in publish) (*api.Published, error) {
	id, err := c.View.Publish(ctx, in.Name, in.Key, in.Body)
	if err != nil {
		return nil, err
	}
	c.Answered(http.StatusCreated)
	return &api.Published{ID: id}, nil
}

type oneEvent struct {
	because
	Event string        `path:"event" doc:"the event's ID"`
	Wait  time.Duration `query:"wait" doc:"how long to wait until it is done; default 10s, at most 60s"`
}

func (s *Server) removeEvent(ctx context.Context, c *endpoint.Call, in oneEvent) (*api.Done, error) {
	return decided(ctx, c, "../events", in.Wait, func(ctx context.Context) error {
		return c.View.RemoveEvent(ctx, in.Name, in.Event, in.Body.Reason)
	})
}

func (s *Server) queues(ctx context.Context, c *endpoint.Call, _ nothing) (api.Queues, error) {
	queues, err := c.View.Queues(ctx)
	return api.Queues{Queues: queues}, err
}

func (s *Server) queue(ctx context.Context, c *endpoint.Call, in named) (*api.Queue, error) {
	return c.View.Queue(ctx, in.Name)
}

type setQueue struct {
	named
	Body api.SetQueue `body:""`
}

func (s *Server) setQueue(ctx context.Context, c *endpoint.Call, in setQueue) (*api.Done, error) {
	return done(c.View.OnQueue(in.Name, in.Body.Reason, func(q stet.Queues, a stet.Act) error {
		if in.Body.Create {
			return q.Create(ctx, in.Name, in.Body.Settings(), a)
		}
		return q.Set(ctx, in.Name, in.Body.Settings(), a)
	}))
}

// onQueue makes a request about a queue that has no arguments of its own.
func onQueue(
	do func(q stet.Queues, ctx context.Context, name string, act stet.Act) error,
) func(context.Context, *endpoint.Call, because) (*api.Done, error) {
	return func(ctx context.Context, c *endpoint.Call, in because) (*api.Done, error) {
		return done(c.View.OnQueue(in.Name, in.Body.Reason, func(q stet.Queues, a stet.Act) error {
			return do(q, ctx, in.Name, a)
		}))
	}
}

func (s *Server) schedules(ctx context.Context, c *endpoint.Call, _ nothing) (api.Schedules, error) {
	schedules, err := c.View.Schedules(ctx)
	return api.Schedules{Schedules: schedules}, err
}

func (s *Server) schedule(ctx context.Context, c *endpoint.Call, in named) (*api.Schedule, error) {
	return c.View.Schedule(ctx, in.Name)
}

const (
	// maxInstants bounds the instants of one request: those of a month, each minute.
	maxInstants = 45_000
	// maxYears bounds how far the instants of one request go: after so many years the calendar repeats.
	maxYears = 400
	// lastYear is the last year that RFC 3339 can write.
	lastYear = 9999
)

type next struct {
	named
	N     int       `query:"n" doc:"how many at most, up to 45000, of 400 years; default 10"`
	From  time.Time `query:"from" doc:"only instants after this; default: now"`
	Until time.Time `query:"until" doc:"only instants before this; default: any"`
}

func (s *Server) next(ctx context.Context, c *endpoint.Call, in next) (*api.Instants, error) {
	most, err := limit(in.N, 10, maxInstants)
	if err != nil {
		return nil, err
	}
	due, err := c.View.ScheduleSpec(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	times, err := schedule.Spec{Cron: due.Cron, Zone: due.Zone, Every: due.Every, Offset: due.Offset}.Compile()
	if err != nil {
		return nil, err
	}
	at := in.From
	if at.IsZero() {
		d, err := s.Engine.Describe(ctx)
		if err != nil {
			return nil, err
		}
		at = d.Now.Time()
	}
	instants, last := []time.Time{}, min(at.UTC().Year()+maxYears, lastYear)
	for len(instants) < most && ctx.Err() == nil {
		if at = times.Next(at); at.IsZero() || at.UTC().Year() > last || !in.Until.IsZero() && !at.Before(in.Until) {
			break
		}
		instants = append(instants, at.UTC())
	}
	return &api.Instants{Instants: instants}, ctx.Err()
}

type setSchedule struct {
	named
	Body api.SetSchedule `body:""`
}

func (s *Server) setSchedule(ctx context.Context, c *endpoint.Call, in setSchedule) (*api.Done, error) {
	return done(c.View.SetSchedule(ctx, in.Name, in.Body))
}

// onSchedule makes a request about a schedule that has no arguments of its own.
func onSchedule(
	do func(q stet.Schedules, ctx context.Context, name string, act stet.Act) error,
) func(context.Context, *endpoint.Call, because) (*api.Done, error) {
	return func(ctx context.Context, c *endpoint.Call, in because) (*api.Done, error) {
		return done(c.View.OnSchedule(ctx, in.Name, in.Body.Reason, func(q stet.Schedules, a stet.Act) error {
			return do(q, ctx, in.Name, a)
		}))
	}
}

func (s *Server) trigger(ctx context.Context, c *endpoint.Call, in because) (*api.Started, error) {
	answer := &api.Started{}
	err := c.View.OnSchedule(ctx, in.Name, in.Body.Reason, func(q stet.Schedules, a stet.Act) (err error) {
		answer.ID, err = q.Trigger(ctx, in.Name, a)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.Answered(http.StatusCreated)
	return answer, nil
}

type backfill struct {
	named
	Body api.Backfill `body:""`
}

func (s *Server) backfill(ctx context.Context, c *endpoint.Call, in backfill) (*api.Done, error) {
	return done(c.View.OnSchedule(ctx, in.Name, in.Body.Reason, func(q stet.Schedules, a stet.Act) error {
		return q.Backfill(ctx, in.Name, in.Body.From, in.Body.To, a)
	}))
}

type listLetters struct {
	Run      []string `query:"run" doc:"letters of these runs"`
	Workflow []string `query:"workflow" doc:"of runs of these workflows"`
	Name     []string `query:"name" doc:"messages of these names"`
	Number   int64    `query:"number" doc:"only the letter of this number, with its value, however large it is"`
	Limit    int      `query:"limit" doc:"letters in a page, up to 1000; default 100"`
	Cursor   string   `query:"cursor" doc:"next of the page before"`
}

func (s *Server) letters(ctx context.Context, c *endpoint.Call, in listLetters) (*api.Letters, error) {
	f := store.DeadFilter{RunIDs: in.Run, Workflows: in.Workflow, Names: in.Name}
	var err error
	if f.Limit, err = limit(in.Limit, store.DefaultPage, maxRuns); err != nil {
		return nil, err
	}
	if in.Number != 0 {
		f.Nos = []store.ItemNo{store.ItemNo(in.Number)}
	}
	query := strconv.FormatInt(in.Number, 10) + "\x03"
	for _, part := range [][]string{in.Run, in.Workflow, in.Name} {
		for _, text := range part {
			query += text + "\x01"
		}
		query += "\x02"
	}
	bound := binding("letters", query, "", c.Who)
	if f.Cursor, err = bound.open(in.Cursor); err != nil {
		return nil, err
	}
	letters, next, err := c.View.Letters(ctx, f)
	return &api.Letters{Letters: letters, Next: bound.seal(next)}, err
}

type oneLetter struct {
	Number int64 `path:"number" doc:"of the letter"`
}

type removeLetter struct {
	oneLetter
	Body api.Reason `body:""`
}

func (s *Server) removeLetter(ctx context.Context, c *endpoint.Call, in removeLetter) (*api.Done, error) {
	return done(c.View.RemoveLetter(ctx, store.ItemNo(in.Number), in.Body.Reason))
}

type replayLetter struct {
	oneLetter
	Body api.Replay `body:""`
}

func (s *Server) replayLetter(ctx context.Context, c *endpoint.Call, in replayLetter) (*api.Done, error) {
	return done(c.View.ReplayLetter(ctx, store.ItemNo(in.Number), in.Body))
}

type listNodes struct {
	Leases bool `query:"leases" doc:"say which node owns which shard"`
}

func (s *Server) nodes(ctx context.Context, c *endpoint.Call, in listNodes) (*api.Nodes, error) {
	return c.View.Nodes(ctx, in.Leases)
}

func (s *Server) drain(ctx context.Context, c *endpoint.Call, in because) (*api.Done, error) {
	return done(c.View.Drain(ctx, in.Name, in.Body.Reason))
}
