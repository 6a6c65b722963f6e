package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/entity/topic"
	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/store"
)

// ErrTopicFull: the topic keeps as many events as its Cap says; nothing was
// published.
var ErrTopicFull = errors.New("the topic is full")

// Topics are the topics of an engine's store. Topic.Publish makes one. Safe for
// concurrent use.
type Topics struct{ engine *Engine }

// Topics returns the topics of the store.
func (e *Engine) Topics() Topics { return Topics{e} }

// TopicInfo is how a topic stands, as its writer has counted. What was sent to it a
// moment ago may be missing.
//
// Accepted = Received + Pending + InFlight + Expired.
type TopicInfo struct {
	Name      string
	Mode      TopicMode     // of the last event that was published
	Expiry    time.Duration // likewise; None: none
	Retention time.Duration // likewise; None: for ever
	Cap       int           // likewise; None: none

	Accepted int64 // events that were published
	// Received counts the consumed events that a run has taken, and the broadcast ones
	// that are kept no more and that some run got.
	Received int64
	Expired  int64 // kept no more, and nobody got them
	Pending  int64 // kept; a broadcast one whoever has got it
	InFlight int64 // consumed ones that are on their way to a run
	Waiting  int64 // waits of runs
	Refused  int64 // by Cap, and not accepted
}

// EventInfo is an event that a topic keeps.
type EventInfo struct {
	ID       string
	Mode     TopicMode
	Sent     time.Time
	Expires  time.Time // zero: with the topic's retention
	Headers  Headers
	Size     int   // of the value in bytes
	Received int64 // runs that got it, of a broadcast one
	InFlight bool  // on its way to a run

	value  []byte
	codecs codecs
}

// Decode decodes the event's value into v, a pointer.
func (i *EventInfo) Decode(v any) error { return i.codecs.decode(i.value, v) }

// List returns how the topics of the store stand, by name: all to which anything
// was ever published, or that a run has waited at.
func (t Topics) List(ctx context.Context) ([]TopicInfo, error) {
	var infos []TopicInfo
	f := store.Filter{Workflows: []string{event.Workflow}, Limit: store.MaxPage}
	for {
		page, err := t.engine.store.List(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("list topics: %w", err)
		}
		for i := range page.Runs {
			_, stats, err := t.engine.topicStats(ctx, &page.Runs[i])
			if err != nil {
				return nil, err
			}
			name, _ := event.Topic(page.Runs[i].ID)
			infos = append(infos, topicInfo(name, stats))
		}
		if f.Cursor = page.Next; page.Next == "" {
			slices.SortFunc(infos, func(a, b TopicInfo) int { return cmp.Compare(a.Name, b.Name) })
			return infos, nil
		}
	}
}

// Info returns how a topic stands. ErrNotFound: nothing was ever published to it,
// and no run has waited at it.
func (t Topics) Info(ctx context.Context, name string) (*TopicInfo, error) {
	run, err := t.engine.topicRecord(ctx, name)
	if err != nil {
		return nil, err
	}
	_, stats, err := t.engine.topicStats(ctx, run)
	if err != nil {
		return nil, err
	}
	info := topicInfo(name, stats)
	return &info, nil
}

// Events returns the events that a topic keeps, in the order in which they were
// published. ErrNotFound as for Topic.
func (t Topics) Events(ctx context.Context, name string) ([]EventInfo, error) {
	run, err := t.engine.topicRecord(ctx, name)
	if err != nil {
		return nil, err
	}
	entries, err := t.engine.store.History(ctx, store.HistoryQuery{Run: run.No, Values: true})
	if err != nil {
		return nil, fmt.Errorf("events of topic %q: %w", name, err)
	}
	held, err := topic.Events(entries)
	if err != nil {
		return nil, fmt.Errorf("events of topic %q: %w", name, err)
	}
	infos := make([]EventInfo, len(held))
	for i := range held {
		h := &held[i]
		headers, _ := decodeHeaders(h.Headers) // were written by encode
		infos[i] = EventInfo{
			ID: event.PublicID(h.ID), Mode: modeOf(h.Mode), Sent: h.Sent.Time(), Headers: headers, Size: len(h.Value),
			Received: h.Runs, InFlight: h.InFlight, value: h.Value, codecs: t.engine.codecs,
		}
		if h.Expires != 0 {
			infos[i].Expires = h.Expires.Time()
		}
	}
	return infos, nil
}

func (e *Engine) topicRecord(ctx context.Context, name string) (*store.Run, error) {
	run, ok, err := e.inner.Get(ctx, event.RecordID(name))
	switch {
	case err != nil:
		return nil, fmt.Errorf("topic %q: %w", name, err)
	case !ok:
		return nil, fmt.Errorf("topic %q: %w", name, ErrNotFound)
	}
	return &run, nil
}

// topicStats reads what a topic says of itself. said is false if that is nothing
// yet.
func (e *Engine) topicStats(ctx context.Context, run *store.Run) (said bool, stats topic.Stats, err error) {
	feeds, err := e.store.Feeds(ctx, store.FeedQuery{Runs: []store.RunNo{run.No}, Name: topic.StatsName, Values: true})
	if err == nil && len(feeds) > 0 {
		said = true
		stats, err = topic.DecodeStats(feeds[0].Value)
	}
	if err != nil {
		return false, stats, fmt.Errorf("how %s stands: %w", run.ID, err)
	}
	return said, stats, nil
}

func modeOf(m event.Mode) TopicMode {
	if m == 0 {
		return Broadcast // nothing was published yet
	}
	return TopicMode(m - event.Broadcast)
}

func topicInfo(name string, s topic.Stats) TopicInfo {
	duration := func(d store.Delay) time.Duration {
		if d == event.Never {
			return None
		}
		return time.Duration(d) * time.Microsecond
	}
	return TopicInfo{
		Name: name, Mode: modeOf(s.Settings.Mode), Cap: s.Settings.Cap,
		Expiry: duration(s.Settings.Expiry), Retention: duration(s.Settings.Retention),
		Accepted: s.Counts.Accepted, Received: s.Counts.Received, Expired: s.Counts.Expired, Refused: s.Counts.Refused,
		Pending: s.Pending, InFlight: s.InFlight, Waiting: s.Waiting,
	}
}

// gates know of each topic how much room it has, so that not every publication has
// to ask.
type gates struct {
	mu    sync.Mutex
	gates map[string]*gate
}

// gate is what this process knows of the room of one topic.
type gate struct {
	mu      sync.Mutex
	record  store.RunNo // 0: not known
	room    int64       // events that may be published before it is asked again
	asked   time.Time
	refused int64 // not told to the topic
}

// gateFor is how long an answer of the topic counts, since others publish as well.
const gateFor = time.Second

// reserve is the room from which on the topic is asked each time.
func reserve(most int) int64 { return max(int64(most)/8, 64) }

func (g *gates) of(name string) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gates == nil {
		g.gates = map[string]*gate{}
	}
	if g.gates[name] == nil {
		g.gates[name] = &gate{}
	}
	return g.gates[name]
}

// enter takes room for one event, if enough is known.
func (g *gate) enter(most int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.room <= reserve(most) || time.Since(g.asked) > gateFor {
		return false
	}
	g.room--
	return true
}

// admit returns ErrTopicFull if the topic has no room for an event. A refusal is
// told to the topic, those of one moment together.
func (e *Engine) admit(ctx context.Context, name string, s event.Settings) error {
	if s.Cap < 0 {
		return nil
	}
	g := e.gates.of(name)
	if g.enter(s.Cap) {
		return nil
	}
	g.mu.Lock()
	run := &store.Run{No: g.record, ID: event.RecordID(name)}
	g.mu.Unlock()
	if run.No == 0 {
		var err error
		if run, err = e.topicRecord(ctx, name); errors.Is(err, ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
	}
	_, stats, err := e.topicStats(ctx, run)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.record, g.room, g.asked = run.No, int64(s.Cap)-stats.Pending, time.Now()
	full := g.room <= 0
	g.room--
	if full {
		g.refused++
	}
	g.mu.Unlock()
	if !full {
		return nil
	}
	err = fmt.Errorf("publish to topic %q: %d events are pending, of %d at most: %w", name, stats.Pending, s.Cap, ErrTopicFull)
	return errors.Join(err, e.tellRefused(ctx, name, g, s))
}

// tellRefused tells the topic how many publications were refused since it was told.
func (e *Engine) tellRefused(ctx context.Context, name string, g *gate, s event.Settings) error {
	g.mu.Lock()
	n := g.refused
	g.refused = 0
	g.mu.Unlock()
	if n == 0 {
		return nil // told by another call
	}
	id := uuid.NewString()
	c := event.Publish(name, id, id, &event.Publication{Settings: s, Refused: n, Only: true}, nil)
	_, err := e.inner.Tell(ctx, c.RunID, *c.Item)
	if err != nil {
		g.mu.Lock()
		g.refused += n
		g.mu.Unlock()
		return fmt.Errorf("count what topic %q refuses: %w", name, err)
	}
	return nil
}
