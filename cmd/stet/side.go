package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/client"
	"github.com/stet-run/stet/store"
)

// side is where a command reads: a store, or a server. Both return the same.
type side interface {
	// nodes returns who works on the store, and owns what.
	nodes(ctx context.Context) (*cluster, error)
	// changed waits for a change or, if nobody tells of one, some time.
	changed(ctx context.Context) error

	run(ctx context.Context, id string) (*aRun, error)
	// runs returns the runs with these IDs that there are, up to a page.
	runs(ctx context.Context, ids []string) ([]*aRun, error)
	// list returns a page of the runs that match.
	list(ctx context.Context, f store.Filter) (runs []*aRun, next string, err error)
	// choose returns the IDs of the runs that a command is for.
	choose(ctx context.Context, t *target) ([]string, error)
	children(ctx context.Context, of *aRun) ([]*aRun, error) // oldest first
	operations(ctx context.Context, id string) ([]operation, error)
	inbox(ctx context.Context, of *aRun) ([]api.Item, error)
	shown(ctx context.Context, of *aRun) (*api.Shown, error)
	items(ctx context.Context, id, stream string, after int64) ([]api.StreamItem, error)
	audit(ctx context.Context, of *aRun) ([]api.Audit, error)
	shape(ctx context.Context, id string) (*api.Shape, error)
	letters(ctx context.Context, f store.DeadFilter) (*api.Letters, error)
	deletions(ctx context.Context) ([]api.Deletion, error)
	acts(ctx context.Context, f stet.AuditFilter) ([]api.Audit, error) // on the store, newest first

	queue(ctx context.Context, name string) (*stet.QueueInfo, error)
	queues(ctx context.Context) ([]stet.QueueInfo, error)
	tasks(ctx context.Context, queue string, limit int) ([]api.Task, error)
	schedule(ctx context.Context, name string) (*api.Schedule, error)
	schedules(ctx context.Context) ([]*api.Schedule, error)
	topic(ctx context.Context, name string) (*api.Topic, error) // with its waits
	topics(ctx context.Context) ([]*api.Topic, error)
	// waiting returns the numbers of the runs that wait for an event of a topic; false: they
	// are found by what each suspended run waits for.
	waiting(ctx context.Context, topic string) ([]store.RunNo, bool, error)
	events(ctx context.Context, topic string) ([]*api.Event, error)
	// workflows returns the names of which a process has ever had the code, or the store a script; false: the caller may
	// not know all of them.
	workflows(ctx context.Context) ([]string, bool, error)
	tokens(ctx context.Context) ([]api.Token, error)
	hooks(ctx context.Context) ([]api.Hook, error)
}

// aRun is a run as commands print it.
type aRun struct {
	*api.Run

	info *stet.RunInfo // of a server: what the form says of it
}

// reading calls fn with the side that the command line names.
func (a *app) reading(ctx context.Context, fn func(side) error) error {
	if c, err := a.client(); c != nil || err != nil {
		return orBy(err, func() error { return fn(serverSide{a, c}) })
	}
	return a.with(ctx, func(e *stet.Engine, s store.Store) error { return fn(storeSide{a, e, s}) })
}

// watchEvery is the shortest time between two looks at the store.
const watchEvery = 100 * time.Millisecond

// storeSide reads a store by an engine that executes nothing.
type storeSide struct {
	app    *app
	engine *stet.Engine
	store  store.Store
}

func (s storeSide) nodes(ctx context.Context) (*cluster, error) { return clusterOf(ctx, s.store) }

func (s storeSide) changed(ctx context.Context) error {
	least := time.NewTimer(watchEvery)
	defer least.Stop()
	most, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := s.store.Changed(most); err != nil && most.Err() == nil {
		return err
	}
	select {
	case <-least.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func ofStore(info *stet.RunInfo) *aRun { return &aRun{api.RunOf(info), info} }

func (s storeSide) run(ctx context.Context, id string) (*aRun, error) {
	info, err := s.engine.Runs().Info(ctx, id)
	if err != nil {
		return nil, err
	}
	return ofStore(info), nil
}

func (s storeSide) runs(ctx context.Context, ids []string) ([]*aRun, error) {
	runs, _, err := s.list(ctx, store.Filter{IDs: ids, Limit: len(ids), Values: true})
	return runs, err
}

func (s storeSide) list(ctx context.Context, f store.Filter) ([]*aRun, string, error) {
	page, next, err := s.engine.Runs().List(ctx, f)
	runs := make([]*aRun, len(page))
	for i := range page {
		runs[i] = ofStore(&page[i])
	}
	return runs, next, err
}

func (s storeSide) choose(ctx context.Context, t *target) ([]string, error) {
	return s.app.choose(ctx, s.engine, t)
}

func (s storeSide) children(ctx context.Context, of *aRun) (children []*aRun, err error) {
	filter := store.Filter{Parent: of.Number, Limit: store.MaxPage, Values: true}
	for {
		page, next, err := s.list(ctx, filter)
		if err != nil {
			return nil, err
		}
		children = append(children, page...)
		if filter.Cursor = next; next == "" {
			return oldestFirst(children), nil
		}
	}
}

func (s storeSide) operations(ctx context.Context, id string) ([]operation, error) {
	return operationsOf(ctx, s.engine, id)
}

func (s storeSide) inbox(ctx context.Context, of *aRun) ([]api.Item, error) {
	found, err := s.store.Inbox(ctx, of.Number)
	items := make([]api.Item, len(found))
	for i := range found {
		items[i] = api.ItemOf(&found[i])
	}
	return items, err
}

func (s storeSide) shown(ctx context.Context, of *aRun) (*api.Shown, error) {
	feeds, err := s.store.Feeds(ctx, store.FeedQuery{Runs: []store.RunNo{of.Number}, Values: true})
	if err != nil {
		return nil, err
	}
	shown := &api.Shown{}
	shown.Values, shown.Streams = api.FeedsOf(feeds)
	return shown, nil
}

func (s storeSide) items(ctx context.Context, id, stream string, after int64) ([]api.StreamItem, error) {
	found, err := s.engine.Runs().Items(ctx, id, stream, after, store.MaxPage)
	items := make([]api.StreamItem, len(found))
	for i := range found {
		items[i] = api.StreamItemOf(&found[i])
	}
	return items, err
}

func (s storeSide) audit(ctx context.Context, of *aRun) ([]api.Audit, error) {
	found, err := s.store.Audit(ctx, of.Number)
	acts := make([]api.Audit, len(found))
	for i := range found {
		acts[i] = api.AuditOf(&found[i])
	}
	return acts, err
}

func (s storeSide) shape(ctx context.Context, id string) (*api.Shape, error) {
	shape, err := s.engine.Runs().Shape(ctx, id)
	if err != nil {
		return nil, err
	}
	return api.ShapeOf(shape), nil
}

func (s storeSide) letters(ctx context.Context, f store.DeadFilter) (*api.Letters, error) {
	found, next, err := s.engine.DeadLetters().List(ctx, f)
	letters := &api.Letters{Letters: make([]*api.Letter, len(found)), Next: next}
	for i := range found {
		letters.Letters[i] = api.LetterOf(&found[i])
	}
	return letters, err
}

func (s storeSide) deletions(ctx context.Context) ([]api.Deletion, error) {
	found, err := s.engine.Runs().Deletions(ctx)
	list := make([]api.Deletion, len(found))
	for i := range found {
		list[i] = api.DeletionOf(&found[i])
	}
	return list, err
}

func (s storeSide) queue(ctx context.Context, name string) (*stet.QueueInfo, error) {
	return s.engine.Queues().Info(ctx, name)
}

func (s storeSide) tasks(ctx context.Context, queue string, limit int) ([]api.Task, error) {
	found, err := s.engine.Tasks().List(ctx, queue, limit)
	list := make([]api.Task, len(found))
	for i := range found {
		list[i] = api.TaskOf(&found[i])
	}
	return list, err
}

func (s storeSide) queues(ctx context.Context) ([]stet.QueueInfo, error) {
	return s.engine.Queues().List(ctx)
}

func (s storeSide) schedule(ctx context.Context, name string) (*api.Schedule, error) {
	info, err := s.engine.Schedules().Info(ctx, name)
	if err != nil {
		return nil, err
	}
	return api.ScheduleOf(info, true), nil
}

func (s storeSide) schedules(ctx context.Context) ([]*api.Schedule, error) {
	found, err := s.engine.Schedules().List(ctx)
	list := make([]*api.Schedule, len(found))
	for i := range found {
		list[i] = api.ScheduleOf(found[i], false)
	}
	return list, err
}

func (s storeSide) topic(ctx context.Context, name string) (*api.Topic, error) {
	info, err := s.engine.Topics().Info(ctx, name)
	if err != nil {
		return nil, err
	}
	waiting, err := s.engine.Topics().Waiting(ctx, name)
	if err != nil {
		return nil, err
	}
	v := api.TopicOf(info)
	for i := range waiting {
		v.Waits = append(v.Waits, api.TopicWaitsOf(&waiting[i], name)...)
	}
	return v, nil
}

func (s storeSide) waiting(ctx context.Context, topic string) (numbers []store.RunNo, known bool, err error) {
	runs, err := s.engine.Topics().Waiting(ctx, topic)
	for i := range runs {
		numbers = append(numbers, runs[i].Number)
	}
	return numbers, true, err
}

func (s storeSide) topics(ctx context.Context) ([]*api.Topic, error) {
	found, err := s.engine.Topics().List(ctx)
	list := make([]*api.Topic, len(found))
	for i := range found {
		list[i] = api.TopicOf(&found[i])
	}
	return list, err
}

func (s storeSide) events(ctx context.Context, topic string) ([]*api.Event, error) {
	found, err := s.engine.Topics().Events(ctx, topic)
	list := make([]*api.Event, len(found))
	for i := range found {
		list[i] = api.EventOf(&found[i])
	}
	return list, err
}

func (s storeSide) workflows(ctx context.Context) ([]string, bool, error) {
	d, err := s.store.Describe(ctx)
	if err != nil {
		return nil, false, err
	}
	names := slices.Clone(d.Workflows)
	scripts, err := stet.ScriptsOf(s.engine).List(ctx)
	for i := range scripts {
		names = append(names, scripts[i].Name)
	}
	return names, true, err
}

func (s storeSide) tokens(ctx context.Context) ([]api.Token, error) {
	found, err := stet.TokensOf(s.engine).List(ctx)
	list := make([]api.Token, len(found))
	for i := range found {
		list[i] = api.TokenOf(&found[i])
	}
	return list, err
}

func (s storeSide) hooks(ctx context.Context) ([]api.Hook, error) {
	found, err := stet.HooksOf(s.engine).List(ctx)
	list := make([]api.Hook, len(found))
	for i := range found {
		list[i] = api.HookOf(&found[i])
	}
	return list, err
}

// serverSide reads by a server.
type serverSide struct {
	app *app
	c   *client.Client
}

// lookByServer is how often a command looks by a server whether something has changed.
const lookByServer = time.Second / 2

func (s serverSide) nodes(ctx context.Context) (*cluster, error) {
	nodes, err := s.c.Owners(ctx)
	if err != nil {
		return nil, err
	}
	return &cluster{NodesInfo: *nodes.Info()}, nil
}

func (s serverSide) changed(ctx context.Context) error {
	wait(ctx, lookByServer)
	return ctx.Err()
}

func ofServer(r *api.Run) *aRun { return &aRun{r, infoOf(r)} }

func (s serverSide) run(ctx context.Context, id string) (*aRun, error) {
	r, err := s.c.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	return ofServer(r), nil
}

func (s serverSide) runs(ctx context.Context, ids []string) ([]*aRun, error) {
	var runs []*aRun
	for _, id := range ids { // a filter of IDs is longer than an address may be
		r, err := s.run(ctx, id)
		if err != nil && !errors.Is(err, stet.ErrNotFound) {
			return nil, err
		}
		if err == nil {
			runs = append(runs, r)
		}
	}
	return runs, nil
}

func (s serverSide) list(ctx context.Context, f store.Filter) ([]*aRun, string, error) {
	page := client.Page{Cursor: f.Cursor, Limit: f.Limit}
	f.Limit, f.Cursor = 0, ""
	found, err := s.c.Runs(ctx, f.String(), page)
	if err != nil {
		return nil, "", err
	}
	runs := make([]*aRun, len(found.Runs))
	for i, r := range found.Runs {
		runs[i] = ofServer(r)
	}
	return runs, found.Next, nil
}

func (s serverSide) choose(ctx context.Context, t *target) ([]string, error) {
	return s.app.chooseBy(ctx, s.c, t)
}

func (s serverSide) children(ctx context.Context, of *aRun) (children []*aRun, err error) {
	page := client.Page{Limit: pageRuns}
	for {
		found, err := s.c.Children(ctx, of.ID, page)
		if err != nil {
			return nil, err
		}
		for _, r := range found.Runs {
			children = append(children, ofServer(r))
		}
		if page.Cursor = found.Next; found.Next == "" {
			return oldestFirst(children), nil
		}
	}
}

func (s serverSide) operations(ctx context.Context, id string) (operations []operation, err error) {
	after := ""
	for {
		page, err := s.c.History(ctx, id, after, 0)
		if err != nil {
			return nil, err
		}
		for _, o := range page.Entries {
			operations = append(operations, operation{Entry: *o})
		}
		if after = page.Next; after == "" {
			return operations, nil
		}
	}
}

func (s serverSide) inbox(ctx context.Context, of *aRun) ([]api.Item, error) {
	inbox, err := s.c.Inbox(ctx, of.ID)
	if err != nil {
		return nil, err
	}
	return inbox.Items, nil
}

func (s serverSide) shown(ctx context.Context, of *aRun) (*api.Shown, error) {
	return s.c.Shown(ctx, of.ID)
}

func (s serverSide) items(ctx context.Context, id, stream string, after int64) ([]api.StreamItem, error) {
	items, err := s.c.Items(ctx, id, stream, after, pageRuns)
	if err != nil {
		return nil, err
	}
	return items.Items, nil
}

func (s serverSide) audit(ctx context.Context, of *aRun) ([]api.Audit, error) {
	acts, err := s.c.Audit(ctx, of.ID)
	if err != nil {
		return nil, err
	}
	return acts.Audit, nil
}

func (s serverSide) shape(ctx context.Context, id string) (*api.Shape, error) {
	return s.c.Shape(ctx, id)
}

func (s serverSide) letters(ctx context.Context, f store.DeadFilter) (*api.Letters, error) {
	which := client.Letters{Runs: f.RunIDs, Workflows: f.Workflows, Names: f.Names}
	return s.c.DeadLetters(ctx, which, client.Page{Limit: f.Limit, Cursor: f.Cursor})
}

func (s serverSide) deletions(ctx context.Context) ([]api.Deletion, error) {
	list, err := s.c.Deletions(ctx)
	if err != nil {
		return nil, err
	}
	return list.Deletions, nil
}

func (s serverSide) queue(ctx context.Context, name string) (*stet.QueueInfo, error) {
	q, err := s.c.Queue(ctx, name)
	if err != nil {
		return nil, err
	}
	return q.Info(), nil
}

func (s serverSide) tasks(ctx context.Context, queue string, limit int) ([]api.Task, error) {
	found, err := s.c.Tasks(ctx, queue, limit)
	if err != nil {
		return nil, err
	}
	return found.Tasks, nil
}

func (s serverSide) queues(ctx context.Context) ([]stet.QueueInfo, error) {
	found, err := s.c.Queues(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]stet.QueueInfo, len(found.Queues))
	for i, q := range found.Queues {
		list[i] = *q.Info()
	}
	return list, nil
}

func (s serverSide) schedule(ctx context.Context, name string) (*api.Schedule, error) {
	return s.c.Schedule(ctx, name)
}

func (s serverSide) schedules(ctx context.Context) ([]*api.Schedule, error) {
	list, err := s.c.Schedules(ctx)
	if err != nil {
		return nil, err
	}
	return list.Schedules, nil
}

func (s serverSide) topic(ctx context.Context, name string) (*api.Topic, error) {
	return s.c.OnTopic(name).Info(ctx)
}

func (s serverSide) waiting(context.Context, string) ([]store.RunNo, bool, error) {
	return nil, false, nil
}

func (s serverSide) topics(ctx context.Context) ([]*api.Topic, error) {
	list, err := s.c.Topics(ctx)
	if err != nil {
		return nil, err
	}
	return list.Topics, nil
}

func (s serverSide) events(ctx context.Context, topic string) ([]*api.Event, error) {
	list, err := s.c.OnTopic(topic).Events(ctx)
	if err != nil {
		return nil, err
	}
	return list.Events, nil
}

func (s serverSide) workflows(ctx context.Context) ([]string, bool, error) {
	info, err := s.c.Info(ctx)
	if err != nil || len(info.Identity.Workflows) > 0 {
		return nil, false, err
	}
	names := info.Workflows
	scripts, err := client.ScriptsOf(s.c).List(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, script := range scripts.Scripts {
		names = append(names, script.Name)
	}
	return names, true, nil
}

func (s serverSide) tokens(ctx context.Context) ([]api.Token, error) {
	list, err := s.c.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	return list.Tokens, nil
}

func (s serverSide) hooks(ctx context.Context) ([]api.Hook, error) {
	list, err := s.c.Hooks(ctx)
	if err != nil {
		return nil, err
	}
	return list.Hooks, nil
}

// oldestFirst turns a list of the newest first around.
func oldestFirst(runs []*aRun) []*aRun { slices.Reverse(runs); return runs }
