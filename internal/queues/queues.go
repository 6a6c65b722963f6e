// Package queues reads the state of queues, and puts the starts of runs on them. The settings
// of a queue are remembered for a moment: so long a change may go unnoticed.
//
// A run that was started on a queue executes only while it holds a permit. It waits in the
// line of the queue; or, in a store without lines, the store holds it until a grant arrives, which
// is compared with its ticket when it is loaded. The permit goes back in the commit that ends it.
// See package permit.
package queues

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
)

// ErrNoQueue says that there is no queue with a name.
var ErrNoQueue = errors.New("there is no such queue")

// fresh is how long a queue's settings may have changed unnoticed.
const fresh = time.Second

// maxKnown bounds the settings that are remembered.
const maxKnown = 10_000

// Config is what Queues are made from. All fields are required.
type Config struct {
	Store store.Store
	Home  func(group, runID string) store.Shard // the shard of a run that a group serves

	// Lines reports whether runs wait in the line of their queue, and do not ask.
	Lines func(context.Context) (bool, error)

	// Working returns the context of a read on behalf of a run that executes here.
	Working func() (context.Context, context.CancelFunc)
}

// Queues is the queues of a store. It is safe for concurrent use.
type Queues struct {
	cfg Config

	mu    sync.Mutex
	known map[string]settings // by name
	reads map[string]*reading // by name, under way
}

// reading is a read of the settings of a queue, for which other starts wait.
type reading struct {
	done     chan struct{} // is closed at its end
	settings permit.Settings
	err      error
}

type settings struct {
	permit.Settings
	until time.Time
}

// New returns the queues of a store.
func New(cfg Config) *Queues {
	return &Queues{cfg: cfg, known: map[string]settings{}, reads: map[string]*reading{}}
}

// State returns the state of a queue; ErrNoQueue if there is none. One that was created and
// of which the owner of its entity does not know yet has the settings that it will have.
func (q *Queues) State(ctx context.Context, name string) (permit.State, store.Run, error) {
	page, err := q.cfg.Store.List(ctx, store.Filter{IDs: []string{permit.EntityID(name)}, Limit: 1})
	if err != nil {
		return permit.State{}, store.Run{}, err
	}
	if len(page.Runs) == 0 {
		return permit.State{}, store.Run{}, ErrNoQueue
	}
	states, err := q.States(ctx, page.Runs)
	if err != nil {
		return permit.State{}, store.Run{}, err
	}
	state, run := states[0], page.Runs[0]
	if state.Exists {
		return state, run, nil
	}
	last, err := q.Creating(ctx, run.No)
	if err != nil {
		return permit.State{}, store.Run{}, err
	}
	if last != nil {
		state.Exists, state.Settings = true, last.Settings
		return state, run, nil
	}
	// The owner may have created it between the two reads.
	if states, err = q.States(ctx, page.Runs); err != nil {
		return permit.State{}, store.Run{}, err
	}
	if state = states[0]; !state.Exists {
		return state, run, ErrNoQueue
	}
	return state, run, nil
}

// Creating returns the last declaration of a queue's settings of which its owner does not
// know yet; nil: there is none. It does not read what else is in the inbox: a queue that no
// node serves has an item for each start.
func (q *Queues) Creating(ctx context.Context, record store.RunNo) (*permit.Change, error) {
	declared, err := q.cfg.Store.Pending(ctx, store.PendingQuery{Run: record, Kinds: []store.ItemKind{store.ItemUpdate},
		Name: permit.Create})
	if err != nil || declared.Items == 0 {
		return nil, err
	}
	items, err := q.cfg.Store.Inbox(ctx, record, declared.Last)
	if err != nil {
		return nil, err
	}
	for i := range items {
		it := &items[i]
		if it.State != store.New && it.State != store.Seen {
			continue // its owner has learned of it meanwhile
		}
		if err := payload.Readable(it.Value); err != nil {
			return nil, err
		}
		entity.Detach(it)
		c, err := permit.DecodeChange(it.Value)
		return &c, err
	}
	return nil, nil
}

// States returns the states of queues by their entities.
func (q *Queues) States(ctx context.Context, entities []store.Run) ([]permit.State, error) {
	nos := make([]store.RunNo, len(entities))
	index := make(map[store.RunNo]int, len(entities))
	for i := range entities {
		nos[i], index[entities[i].No] = entities[i].No, i
	}
	states := make([]permit.State, len(entities))
	feeds, err := q.cfg.Store.Feeds(ctx, store.FeedQuery{Runs: nos, Values: true})
	if err != nil {
		return nil, err
	}
	for i := range feeds {
		if f := &feeds[i]; f.Name == permit.StateValue && !f.Stream {
			if err := payload.Readable(f.Value); err != nil {
				return nil, err
			}
			if states[index[f.Run]], err = permit.DecodeState(f.Value); err != nil {
				return nil, err
			}
		}
	}
	return states, nil
}

// Enqueue puts a start on a queue: not before the times that it has. ErrNoQueue: there
// is none with the name.
func (q *Queues) Enqueue(ctx context.Context, start *store.Start, p permit.Place) error {
	settings, err := q.settingsOf(ctx, p.Queue)
	if err != nil {
		return err
	}
	lines, err := q.cfg.Lines(ctx)
	if err != nil {
		return err
	}
	q.enqueue(start, p, settings, lines)
	return nil
}

// enqueue puts a start on a queue that has the settings: it waits in the line, from its time on, or asks.
func (q *Queues) enqueue(start *store.Start, p permit.Place, settings permit.Settings, lines bool) {
	p.Ticket, p.InLine, p.Release = "", lines, settings.Release
	start.Shard = q.cfg.Home(settings.Group, start.ID)
	if lines {
		start.Queue = &store.QueueEntry{Data: p.Encode(),
			Line: &store.Line{Queue: permit.EntityID(p.Queue), Key: p.Key, Priority: p.Priority}}
		return
	}
	p.Ticket = permit.NewTicket()
	ask := permit.Ask{RunID: start.ID, At: start.At, After: start.After}
	start.Queue = &store.QueueEntry{Data: p.Encode(), Ask: p.AskFor(ask)}
	start.At, start.After = 0, 0
}

// EnqueueChild is Enqueue for a child of a run that executes here. A queue that does not
// exist has no group: it waits in that of its parent, which the
// start has.
func (q *Queues) EnqueueChild(start *store.Start, p permit.Place) error {
	ctx, cancel := q.cfg.Working()
	defer cancel()
	settings, err := q.settingsOf(ctx, p.Queue)
	switch {
	case errors.Is(err, ErrNoQueue):
		settings = permit.Settings{Group: start.Shard.Group}
	case err != nil:
		return err
	}
	lines, err := q.cfg.Lines(ctx)
	if err != nil {
		return err
	}
	q.enqueue(start, p, settings, lines)
	return nil
}

// Enqueuer returns a function that puts starts on a queue, for an entity that executes
// here; nil: there is no such queue.
func (q *Queues) Enqueuer(p permit.Place) (func(*store.Start), error) {
	ctx, cancel := q.cfg.Working()
	defer cancel()
	settings, err := q.settingsOf(ctx, p.Queue)
	switch {
	case errors.Is(err, ErrNoQueue):
		return nil, nil
	case err != nil:
		return nil, err
	}
	lines, err := q.cfg.Lines(ctx)
	if err != nil {
		return nil, err
	}
	return func(start *store.Start) { q.enqueue(start, p, settings, lines) }, nil
}

// EnqueueFork puts the start of a fork on the queue of the other run, if it is on one.
func (q *Queues) EnqueueFork(ctx context.Context, start *store.Start) error {
	if start.Queue == nil {
		return nil
	}
	p, _, err := permit.DecodePlace(start.Queue.Data)
	if err != nil {
		return err
	}
	return q.Enqueue(ctx, start, p)
}

func (q *Queues) settingsOf(ctx context.Context, name string) (permit.Settings, error) {
	q.mu.Lock()
	known, ok := q.known[name]
	if ok && time.Now().Before(known.until) {
		q.mu.Unlock()
		return known.Settings, nil
	}
	if other := q.reads[name]; other != nil {
		q.mu.Unlock()
		select {
		case <-other.done:
		case <-ctx.Done():
			return permit.Settings{}, fmt.Errorf("queue %q: %w", name, context.Cause(ctx))
		}
		if other.err == nil {
			return other.settings, nil
		}
		// It may have failed because its caller has left, or have read before the queue was created.
		state, _, err := q.State(ctx, name)
		if err != nil {
			return permit.Settings{}, fmt.Errorf("queue %q: %w", name, err)
		}
		return state.Settings, nil
	}
	own := &reading{done: make(chan struct{})}
	q.reads[name] = own
	q.mu.Unlock()
	defer close(own.done)
	asked := time.Now()
	state, _, err := q.State(ctx, name)
	q.mu.Lock()
	defer q.mu.Unlock()
	forgotten := q.reads[name] != own
	if !forgotten {
		delete(q.reads, name)
	}
	if err != nil {
		own.err = fmt.Errorf("queue %q: %w", name, err)
		return permit.Settings{}, own.err
	}
	if own.settings = state.Settings; forgotten {
		return own.settings, nil
	}
	if len(q.known) > maxKnown {
		q.known = map[string]settings{}
	}
	q.known[name] = settings{state.Settings, asked.Add(fresh)}
	return state.Settings, nil
}

// Forget forgets the settings of a queue that this process has changed. A start that
// begins later waits for no read that is under way.
func (q *Queues) Forget(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.known, name)
	delete(q.reads, name)
}
