package view

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/server/access"
	"github.com/stet-run/stet/store"
)

// hideParents takes the names of parents out of the limit away from runs.
func (v *View) hideParents(ctx context.Context, runs []*api.Run) error {
	if !v.who.Limited() {
		return nil
	}
	seen := map[store.RunNo]bool{}
	var numbers []store.RunNo
	for _, run := range runs {
		if run.Parent != 0 && !slices.Contains(numbers, run.Parent) {
			numbers = append(numbers, run.Parent)
		}
	}
	if len(numbers) > 0 {
		parents, _, err := v.engine.Runs().List(ctx, store.Filter{Nos: numbers, Limit: len(numbers)})
		if err != nil {
			return err
		}
		for i := range parents {
			seen[parents[i].Number] = v.who.Sees(parents[i].Workflow)
		}
	}
	for _, run := range runs {
		run.Why = slices.Clone(run.Why) // others may have it
		for i := range run.Why {
			if w := &run.Why[i]; w.Code == "locked" { // its text has the IDs of ancestors
				w.Text = w.Means()
			}
		}
		if !seen[run.Parent] {
			run.Parent, run.ParentID, run.ParentLocation = 0, "", ""
		}
	}
	return nil
}

// Children returns a page of the children of a run, the newest first.
func (v *View) Children(ctx context.Context, runID string, f store.Filter) ([]*api.Run, string, error) {
	info, err := v.find(ctx, runID)
	if err != nil {
		return nil, "", err
	}
	f.Parent = info.Number
	return v.Runs(ctx, f)
}

// Wait returns a run once it has ended or stalled, or when ctx ends.
func (v *View) Wait(ctx context.Context, runID string) error {
	if _, err := v.find(ctx, runID); err != nil {
		return err
	}
	_, err := v.engine.Runs().Wait(ctx, runID)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Inbox returns what the run has not taken.
func (v *View) Inbox(ctx context.Context, runID string) ([]api.Item, error) {
	info, err := v.find(ctx, runID)
	if err != nil {
		return nil, err
	}
	found, err := v.engine.Store().Inbox(ctx, info.Number)
	if err != nil {
		return nil, err
	}
	return ShowInbox(v, info, found), nil
}

// ShowInbox returns the form of a run's inbox, as the view may see it.
func ShowInbox(v *View, info *stet.RunInfo, inbox []store.Item) []api.Item {
	items := make([]api.Item, len(inbox))
	e, edited := v.editor(info.Workflow, "message")
	space := room(pageBytes)
	for i := range inbox {
		if items[i] = api.ItemOf(&inbox[i]); edited {
			items[i].Edit(e)
		}
		space.fit(&items[i].Value)
	}
	return items
}

// Audit returns what operators did to the run.
func (v *View) Audit(ctx context.Context, runID string) ([]api.Audit, error) {
	info, err := v.find(ctx, runID)
	if err != nil {
		return nil, err
	}
	found, err := v.engine.Runs().Audit(ctx, runID)
	if err != nil {
		return nil, err
	}
	e, edited := v.editor(info.Workflow, "audit")
	acts := make([]api.Audit, len(found))
	for i := range found {
		if acts[i] = api.AuditOf(&found[i]); edited {
			acts[i].Edit(e)
		}
	}
	return acts, nil
}

// Shown returns the values and streams that the run shows, or, with its whole value, the one value of a name.
func (v *View) Shown(ctx context.Context, runID, name string) (*api.Shown, error) {
	info, err := v.find(ctx, runID)
	if err != nil {
		return nil, err
	}
	if name == "" {
		feeds, err := Feeds(ctx, v.engine.Store(), info.Number, v.values())
		if err != nil {
			return nil, err
		}
		return ShowFeeds(v, info, feeds), nil
	}
	feeds, err := v.engine.Store().Feeds(ctx, store.FeedQuery{Runs: []store.RunNo{info.Number}, Name: name,
		Values: v.values()})
	if err != nil {
		return nil, err
	}
	feeds = slices.DeleteFunc(feeds, func(f store.Feed) bool { return f.Stream })
	if len(feeds) == 0 {
		return nil, notFound("value", name)
	}
	return v.showFeeds(info, feeds), nil
}

// mostNamed is how many values are read one by one because others of the run are large.
const mostNamed = 50

// Feeds reads what a run shows. Values above listed, and those without room in a page, are left out.
func Feeds(ctx context.Context, s store.Store, run store.RunNo, values bool) ([]store.Feed, error) {
	q := store.FeedQuery{Runs: []store.RunNo{run}}
	feeds, err := s.Feeds(ctx, q)
	if err != nil || !values {
		return feeds, err
	}
	var wanted []int
	space, all := room(pageBytes), true
	for i := range feeds {
		switch f := &feeds[i]; {
		case f.Stream || f.Size == 0:
		case space.takes(f.Size):
			wanted = append(wanted, i)
		default:
			all = false
		}
	}
	q.Values = true
	if all {
		if len(wanted) == 0 {
			return feeds, nil
		}
		return s.Feeds(ctx, q)
	}
	for _, i := range wanted[:min(len(wanted), mostNamed)] {
		q.Name = feeds[i].Name
		read, err := s.Feeds(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, f := range read {
			if !f.Stream {
				feeds[i] = f
			}
		}
	}
	return feeds, nil
}

// ShowFeeds returns the form of what a run shows, as the identity of v may see it.
func ShowFeeds(v *View, info *stet.RunInfo, feeds []store.Feed) *api.Shown {
	shown, space := v.showFeeds(info, feeds), room(pageBytes)
	for i := range shown.Values {
		space.fit(&shown.Values[i].Value)
	}
	return shown
}

func (v *View) showFeeds(info *stet.RunInfo, feeds []store.Feed) *api.Shown {
	shown := &api.Shown{}
	shown.Values, shown.Streams = api.FeedsOf(feeds)
	if e, ok := v.editor(info.Workflow, "value"); ok {
		for i := range shown.Values {
			shown.Values[i].Edit(e)
		}
	}
	sizes := map[string]int{}
	for i := range feeds {
		if !feeds[i].Stream {
			sizes[feeds[i].Name] = feeds[i].Size
		}
	}
	for i := range shown.Values {
		if value := &shown.Values[i]; value.Value == nil && sizes[value.Name] > 0 {
			value.Value = v.unread(sizes[value.Name])
		}
	}
	if shown.Values == nil {
		shown.Values = []api.NamedValue{}
	}
	if shown.Streams == nil {
		shown.Streams = []api.Stream{}
	}
	return shown
}

// Items returns items of a stream of the run.
func (v *View) Items(ctx context.Context, runID, stream string, after int64, limit int) ([]api.StreamItem, error) {
	info, err := v.find(ctx, runID)
	if err != nil {
		return nil, err
	}
	found, err := v.engine.Runs().Items(ctx, runID, stream, after, limit)
	if err != nil {
		return nil, err
	}
	e, edited := v.editor(info.Workflow, "stream")
	items := make([]api.StreamItem, len(found))
	for i := range found {
		if items[i] = api.StreamItemOf(&found[i]); edited {
			items[i].Edit(e)
		}
	}
	return items, nil
}

// Value returns one value of a run: its input, its output, or that of the entry at a
// location.
func (v *View) Value(ctx context.Context, runID, place string) (json.RawMessage, error) {
	if place == "input" || place == "output" {
		info, err := v.whole(ctx, runID)
		if err != nil {
			return nil, err
		}
		run := v.show(info)
		if place == "input" {
			return run.Input, nil
		}
		return run.Output, nil
	}
	entry, err := v.entry(ctx, runID, place)
	if err != nil {
		return nil, err
	}
	return entry.Value, nil
}

// Export writes the run as a file, with all values: for those who may see them.
func (v *View) Export(ctx context.Context, runID string, w io.Writer) error {
	if _, err := v.find(ctx, runID); err != nil {
		return err
	}
	if v.edit != nil {
		return Denied("the file of a run has its values as they are, and this server edits them")
	}
	return v.engine.Runs().Export(ctx, runID, w)
}

// Shape returns the shape of a run.
func (v *View) Shape(ctx context.Context, runID string) (*stet.Shape, error) {
	if v.who.Limited() || store.IsEntity(runID) { // otherwise the row is read once
		if _, err := v.find(ctx, runID); err != nil {
			return nil, err
		}
	}
	s, err := v.engine.Runs().Shape(ctx, runID)
	if errors.Is(err, stet.ErrNotFound) {
		return nil, notFound("run", runID)
	}
	return s, err
}

// Deletions returns who has deleted runs.
func (v *View) Deletions(ctx context.Context) ([]api.Deletion, error) {
	found, err := v.engine.Runs().Deletions(ctx)
	list := []api.Deletion{}
	for i := range found {
		if v.who.Sees(found[i].Workflow) {
			list = append(list, api.DeletionOf(&found[i]))
		}
	}
	return list, err
}

// named refuses a topic, queue or schedule out of the limit as if it were not there.
func (v *View) named(kind, name string) error {
	if v.who.SeesNamed(kind, name) {
		return nil
	}
	if kind == "queue" {
		return errors.Join(notFound(kind, name), stet.ErrNoQueue)
	}
	return notFound(kind, name)
}

// Queues returns the queues, by name.
func (v *View) Queues(ctx context.Context) ([]*api.Queue, error) {
	found, err := v.engine.Queues().List(ctx)
	queues := []*api.Queue{}
	for i := range found {
		if v.who.SeesNamed("queue", found[i].Name) {
			queues = append(queues, v.showQueue(&found[i]))
		}
	}
	return queues, err
}

// Queue returns a queue.
func (v *View) Queue(ctx context.Context, name string) (*api.Queue, error) {
	if err := v.named("queue", name); err != nil {
		return nil, err
	}
	q, err := v.engine.Queues().Info(ctx, name)
	if err != nil {
		return nil, err
	}
	return v.showQueue(q), nil
}

func (v *View) showQueue(info *stet.QueueInfo) *api.Queue {
	q := api.QueueOf(info)
	if e, ok := v.editor("", "queue"); ok {
		q.Edit(e)
	}
	return q
}

// OnQueue acts on a queue within the limit.
func (v *View) OnQueue(name, reason string, do func(q stet.Queues, act stet.Act) error) error {
	if err := v.named("queue", name); err != nil {
		return err
	}
	return do(v.engine.Queues(), v.act(reason))
}

// Topics returns the topics, by name.
func (v *View) Topics(ctx context.Context) ([]*api.Topic, error) {
	found, err := v.engine.Topics().List(ctx)
	topics := []*api.Topic{}
	for i := range found {
		if v.who.SeesNamed("topic", found[i].Name) {
			topics = append(topics, api.TopicOf(&found[i]))
		}
	}
	return topics, err
}

// Topic returns a topic with the waits of runs within the limit.
func (v *View) Topic(ctx context.Context, name string) (*api.Topic, error) {
	if err := v.named("topic", name); err != nil {
		return nil, err
	}
	info, err := v.engine.Topics().Info(ctx, name)
	if err != nil {
		return nil, err
	}
	waiting, err := v.engine.Topics().Waiting(ctx, name)
	if err != nil {
		return nil, err
	}
	topic := api.TopicOf(info)
	for i := range waiting {
		if v.who.Sees(waiting[i].Workflow) {
			topic.Waits = append(topic.Waits, api.TopicWaitsOf(&waiting[i], name)...)
		}
	}
	return topic, nil
}

// Events returns the last events that a topic keeps, or those before a number, and whether there are older ones.
// Large values are cut. whole says that those of the page are not.
func (v *View) Events(
	ctx context.Context, name string, before store.ItemNo, limit int, whole bool,
) (events []*api.Event, older bool, err error) {
	if err := v.named("topic", name); err != nil {
		return nil, false, err
	}
	page := stet.EventPage{Before: before, Limit: limit + 1, Longest: v.Longest(), Bytes: pageBytes}
	if whole && v.values() {
		page.Longest = 0
	}
	found, err := v.engine.Topics().Events(ctx, name, page)
	if err != nil {
		return nil, false, err
	}
	if older = len(found) > limit; older {
		found = found[1:]
	}
	e, edited := v.editor("", "event")
	events = make([]*api.Event, len(found))
	space := room(pageBytes)
	for i, one := range slices.Backward(found) { // the last ones have the room
		if events[i] = api.EventOf(&one); edited {
			events[i].Edit(e)
		}
		if one.LeftOut {
			events[i].Value = v.unread(one.Size)
		}
		if !whole {
			space.fit(&events[i].Value)
		}
	}
	return events, older, nil
}

// RemoveEvent removes an event from a topic.
func (v *View) RemoveEvent(ctx context.Context, topic, id, reason string) error {
	if err := v.named("topic", topic); err != nil {
		return err
	}
	return v.engine.Topics().Remove(ctx, topic, id, v.act(reason))
}

// Schedules returns the schedules, the newest first.
func (v *View) Schedules(ctx context.Context) ([]*api.Schedule, error) {
	found, err := v.engine.Schedules().List(ctx)
	schedules := []*api.Schedule{}
	for _, info := range found {
		if v.who.SeesNamed("schedule", info.Name) && v.who.Sees(info.Workflow) {
			schedules = append(schedules, v.showSchedule(info, false))
		}
	}
	return schedules, err
}

func (v *View) showSchedule(info *stet.ScheduleInfo, past bool) *api.Schedule {
	s := api.ScheduleOf(info, past)
	if e, ok := v.editor(info.Workflow, "schedule"); ok {
		s.Edit(e)
	}
	return s
}

// scheduleInfo returns a schedule within the limit.
func (v *View) scheduleInfo(ctx context.Context, name string) (*stet.ScheduleInfo, error) {
	if err := v.named("schedule", name); err != nil {
		return nil, err
	}
	info, err := v.engine.Schedules().Info(ctx, name)
	if err != nil {
		return nil, err
	}
	if !v.who.Sees(info.Workflow) {
		return nil, notFound("schedule", name)
	}
	return info, nil
}

// Schedule returns a schedule with its past decisions.
func (v *View) Schedule(ctx context.Context, name string) (*api.Schedule, error) {
	info, err := v.scheduleInfo(ctx, name)
	if err != nil {
		return nil, err
	}
	return v.showSchedule(info, true), nil
}

// ScheduleSpec returns when a schedule is due.
func (v *View) ScheduleSpec(ctx context.Context, name string) (stet.Schedule, error) {
	info, err := v.scheduleInfo(ctx, name)
	if err != nil {
		return stet.Schedule{}, err
	}
	return info.Schedule, nil
}

// OnSchedule acts on a schedule that is there.
func (v *View) OnSchedule(
	ctx context.Context, name, reason string, do func(s stet.Schedules, act stet.Act) error,
) error {
	if _, err := v.scheduleInfo(ctx, name); err != nil {
		return err
	}
	return do(v.engine.Schedules(), v.act(reason))
}

// SetSchedule makes or changes a schedule: of a workflow within the limit, and in place of
// one that is within it.
func (v *View) SetSchedule(ctx context.Context, name string, in api.SetSchedule) error {
	if !v.who.Sees(in.Workflow) || !v.who.SeesNamed("schedule", name) {
		return Denied("schedule %s of workflow %s", name, in.Workflow)
	}
	if v.who.Limited() {
		if _, err := v.scheduleInfo(ctx, name); err != nil && !errors.Is(err, stet.ErrNotFound) {
			return err
		} else if err != nil {
			if _, there := v.engine.Schedules().Info(ctx, name); there == nil {
				return Denied("schedule %s is of another workflow", name)
			}
		}
		if in.Queue != nil && !v.who.SeesNamed("queue", in.Queue.Name) {
			return Denied("schedule on queue %s", in.Queue.Name)
		}
	}
	s := stet.Schedule{
		Cron: in.Cron, Zone: in.Zone, Every: orNone(in.EveryMS), Offset: orNone(in.OffsetMS), CatchUp: orNone(in.CatchUpMS),
		Tags: in.Tags, Headers: v.headers(in.Headers), Paused: in.Paused,
	}
	if in.Overlap != nil {
		s.Overlap = *in.Overlap
	}
	options := []stet.ScheduleOption{stet.Act{By: v.who.Name, Why: in.Reason}}
	policy, err := in.Policy.Options()
	if err != nil {
		return err
	}
	for _, o := range policy {
		options = append(options, o)
	}
	if q := in.Queue; q != nil {
		options = append(options, stet.OnQueue{Name: q.Name, Key: q.Key, Priority: q.Priority})
	}
	if in.Refuse {
		options = append(options, stet.RefuseExisting)
	} else {
		options = append(options, stet.UntilCarriedOut())
	}
	workflow := stet.Ref[json.RawMessage, json.RawMessage](in.Workflow)
	return workflow.Schedule(ctx, v.engine, name, orNull(in.Input), s, options...)
}

// Letters returns a page of dead letters, newest first, with values. Large ones are cut; that of one letter whose
// number the filter has is whole.
func (v *View) Letters(ctx context.Context, f store.DeadFilter) ([]*api.Letter, string, error) {
	if v.who.Limited() {
		runs := store.Filter{Workflows: f.Workflows}
		if !restrict(v.who, &runs) {
			return []*api.Letter{}, "", nil
		}
		f.Workflows = runs.Workflows
	}
	one := len(f.Nos) == 1
	f.Values = false
	found, next, err := v.engine.DeadLetters().List(ctx, f)
	if err != nil {
		return nil, "", err
	}
	found = slices.DeleteFunc(found, func(l stet.DeadLetter) bool { return !v.who.Sees(l.Workflow) })
	if err := v.fillLetters(ctx, found, one); err != nil {
		return nil, "", err
	}
	letters, space := []*api.Letter{}, room(pageBytes)
	for i := range found {
		letter := api.LetterOf(&found[i])
		if e, ok := v.editor(letter.Workflow, "letter"); ok {
			letter.Edit(e)
		}
		if letter.Value == nil && letter.Error == nil && letter.Size > 0 {
			letter.Value = v.unread(letter.Size)
		}
		if !one {
			space.fit(&letter.Value)
		}
		letters = append(letters, letter)
	}
	return letters, next, nil
}

// fillLetters reads the values of letters that have room in a page, or that of the only one. For an identity that may
// not read values it reads small ones: those of the kinds that say what they are about, or why they were rejected.
func (v *View) fillLetters(ctx context.Context, letters []stet.DeadLetter, whole bool) error {
	space := room(pageBytes)
	at := map[store.ItemNo]int{}
	f := store.DeadFilter{Values: true}
	for i := range letters {
		l := &letters[i]
		switch {
		case l.Size == 0:
			continue
		case !v.values() && (l.Size > recorded || l.Kind == store.ItemMessage):
			continue
		case !(whole && v.values()) && !space.takes(l.Size):
			continue
		}
		at[l.Number] = i
		f.Nos = append(f.Nos, l.Number)
	}
	if f.Limit = len(f.Nos); f.Limit == 0 {
		return nil
	}
	read, _, err := v.engine.DeadLetters().List(ctx, f)
	for i := range read {
		letters[at[read[i].Number]] = read[i]
	}
	return err
}

// letter returns a dead letter within the limit.
func (v *View) letter(ctx context.Context, number store.ItemNo) (*stet.DeadLetter, error) {
	found, _, err := v.engine.DeadLetters().List(ctx, store.DeadFilter{Nos: []store.ItemNo{number}, Limit: 1})
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0 || !v.who.Sees(found[0].Workflow):
		return nil, invalidLetter(number)
	}
	return &found[0], nil
}

// ReplayLetter sends a dead letter again, to a run within the limit.
func (v *View) ReplayLetter(ctx context.Context, number store.ItemNo, r api.Replay) error {
	letter, err := v.letter(ctx, number)
	if err != nil {
		return err
	}
	to := r.Run
	if to == "" {
		to = letter.RunID
	}
	if _, err := v.find(ctx, to); err != nil {
		return err
	}
	return v.engine.DeadLetters().Replay(ctx, number, to, v.act(r.Reason))
}

// RemoveLetter removes a dead letter.
func (v *View) RemoveLetter(ctx context.Context, number store.ItemNo, reason string) error {
	if _, err := v.letter(ctx, number); err != nil {
		return err
	}
	removed, err := v.engine.DeadLetters().Remove(ctx, v.act(reason), number)
	if err == nil && removed == 0 {
		err = invalidLetter(number)
	}
	return err
}

// Nodes returns the nodes, and the leases too where they are asked for; a limited identity
// does not see which other workflows they have.
func (v *View) Nodes(ctx context.Context, leases bool) (*api.Nodes, error) {
	d, err := v.engine.Nodes().Info(ctx)
	if err != nil {
		return nil, err
	}
	nodes := ShowNodes(v, d)
	if leases {
		nodes.Leases = api.LeasesOf(d)
	}
	return nodes, nil
}

// ShowNodes returns the nodes of a description as the identity of v may see them. The description
// stays as it is, for others.
func ShowNodes(v *View, d *stet.NodesInfo) *api.Nodes {
	nodes := &api.Nodes{Nodes: api.NodesOf(d), Now: d.Now.Time(), Slots: d.Slots}
	for i := range nodes.Nodes {
		n := &nodes.Nodes[i]
		n.Workflows = slices.DeleteFunc(n.Workflows, func(w string) bool { return !v.who.Sees(w) })
		if v.who.Limited() { // they name runs and keys
			n.Lacks = nil
		}
		n.Bodies = slices.DeleteFunc(n.Bodies, func(b api.Body) bool { return !v.who.Sees(b.Workflow) })
	}
	return nodes
}

// Drain requests that a node gives its shards back. It concerns all workflows.
func (v *View) Drain(ctx context.Context, node, reason string) error {
	if v.who.Limited() {
		return Denied("drain of a node")
	}
	return v.engine.Nodes().Drain(ctx, node, v.act(reason))
}

// MayAdminister refuses what concerns the whole store to an identity with a limit.
func (v *View) MayAdminister() error {
	if v.who.Limited() || !v.who.Role.May(access.Admin) {
		return Denied("what concerns the whole store")
	}
	return nil
}
