package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
)

// A run that was started on a queue executes only while it holds a permit. The store
// holds the run until a grant arrives. When it is loaded the grant is compared with its
// ticket, and the permit goes back in the commit that ends it. See package permit.

// ErrNoQueue says that there is no queue with a name.
var ErrNoQueue = runner.ErrNoQueue

// queues remembers the settings of queues for a moment.
type queues struct {
	mu    sync.Mutex
	known map[string]knownQueue
}

type knownQueue struct {
	settings permit.Settings
	until    time.Time
}

// fresh is how long a queue's settings may have changed unnoticed.
const fresh = time.Second

// Queue returns the state of a queue; ErrNoQueue if there is none.
func (e *Engine) Queue(ctx context.Context, name string) (permit.State, store.Run, error) {
	page, err := e.cfg.Store.List(ctx, store.Filter{IDs: []string{permit.EntityID(name)}, Limit: 1})
	if err != nil {
		return permit.State{}, store.Run{}, err
	}
	if len(page.Runs) == 0 {
		return permit.State{}, store.Run{}, ErrNoQueue
	}
	states, err := e.QueueStates(ctx, page.Runs)
	if err != nil {
		return permit.State{}, store.Run{}, err
	}
	if !states[0].Exists {
		err = ErrNoQueue
	}
	return states[0], page.Runs[0], err
}

// QueueStates returns the states of queues by their entities.
func (e *Engine) QueueStates(ctx context.Context, entities []store.Run) ([]permit.State, error) {
	nos := make([]store.RunNo, len(entities))
	index := make(map[store.RunNo]int, len(entities))
	for i := range entities {
		nos[i], index[entities[i].No] = entities[i].No, i
	}
	states := make([]permit.State, len(entities))
	feeds, err := e.cfg.Store.Feeds(ctx, store.FeedQuery{Runs: nos, Values: true})
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

// Place puts a start on a queue: not before the times that it has. ErrNoQueue: there
// is none with the name.
func (e *Engine) Place(ctx context.Context, start *store.Start, p permit.Place) error {
	settings, err := e.queueSettings(ctx, p.Queue)
	if err != nil {
		return err
	}
	e.place(start, p, settings)
	return nil
}

// place puts a start on a queue that has the settings.
func (e *Engine) place(start *store.Start, p permit.Place, settings permit.Settings) {
	p.Ticket, p.Release = permit.NewTicket(), settings.Release
	start.Shard = store.Shard{Group: settings.Group, Slot: e.Slot(start.ID)}
	if e.slots == 1 { // one process owns the store, whatever its groups
		start.Shard.Group = store.DefaultGroup
	}
	ask := permit.Ask{RunID: start.ID, At: start.At, After: start.After}
	start.Queue = &store.QueueEntry{Data: p.Encode(), Ask: p.AskFor(ask)}
	start.At, start.After = 0, 0
}

// working returns a context for a read on behalf of a run that executes here.
func (e *Engine) working() (context.Context, context.CancelFunc) {
	ctx := context.Background()
	if x := e.executor.Load(); x != nil {
		ctx = x.held
	}
	return context.WithTimeout(ctx, e.cfg.LeaseTTL)
}

// PlaceChild is Place for a child of a run that executes here.
func (e *Engine) PlaceChild(start *store.Start, p permit.Place) error {
	ctx, cancel := e.working()
	defer cancel()
	return e.Place(ctx, start, p)
}

// Placer returns what puts starts on a queue on behalf of an entity that executes here;
// nil: there is no such queue.
func (e *Engine) Placer(p permit.Place) (func(*store.Start), error) {
	ctx, cancel := e.working()
	defer cancel()
	settings, err := e.queueSettings(ctx, p.Queue)
	switch {
	case errors.Is(err, ErrNoQueue):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return func(start *store.Start) { e.place(start, p, settings) }, nil
}

// PlaceFork puts the start of a fork on the queue of the other run, if it is on one.
func (e *Engine) PlaceFork(ctx context.Context, start *store.Start) error {
	if start.Queue == nil {
		return nil
	}
	p, _, err := permit.DecodePlace(start.Queue.Data)
	if err != nil {
		return err
	}
	return e.Place(ctx, start, p)
}

func (e *Engine) queueSettings(ctx context.Context, name string) (permit.Settings, error) {
	e.queues.mu.Lock()
	known, ok := e.queues.known[name]
	e.queues.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.settings, nil
	}
	asked := time.Now()
	state, _, err := e.Queue(ctx, name)
	if err != nil {
		return permit.Settings{}, fmt.Errorf("queue %q: %w", name, err)
	}
	e.queues.mu.Lock()
	defer e.queues.mu.Unlock()
	if e.queues.known == nil || len(e.queues.known) > 10_000 {
		e.queues.known = map[string]knownQueue{}
	}
	e.queues.known[name] = knownQueue{state.Settings, asked.Add(fresh)}
	return state.Settings, nil
}

// ForgetQueue forgets the settings of a queue that this process has changed.
func (e *Engine) ForgetQueue(name string) {
	e.queues.mu.Lock()
	defer e.queues.mu.Unlock()
	delete(e.queues.known, name)
}
