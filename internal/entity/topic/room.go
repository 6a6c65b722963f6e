package topic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/store"
)

// ErrFull says that a topic keeps as many events as its Cap says.
var ErrFull = errors.New("the topic is full")

// FeedReader reads what entities publish. A store.Store is one.
type FeedReader interface {
	Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error)
}

// ReadStats returns the stats that a topic has published. known is false if it has
// published none yet. run is that of the topic.
func ReadStats(ctx context.Context, r FeedReader, run store.RunNo) (stats Stats, known bool, err error) {
	feeds, err := r.Feeds(ctx, store.FeedQuery{Runs: []store.RunNo{run}, Name: StatsName, Values: true})
	if err != nil || len(feeds) == 0 {
		return Stats{}, false, err
	}
	if err = payload.Readable(feeds[0].Value); err == nil {
		stats, err = DecodeStats(feeds[0].Value)
	}
	return stats, err == nil, err
}

// Rooms remembers for publishers how much room each topic has, so that not every
// publication has to read it. Several processes may publish, so this is a guess: the
// topic is read again while it has little room, and after a second. It may exceed its Cap
// by the events that are published meanwhile; its writer accepts every event that
// arrives. Safe for concurrent use.
type Rooms struct {
	client entity.Client
	feeds  FeedReader

	mu     sync.Mutex
	topics map[string]*roomCache
}

// NewRooms returns a Rooms that knows nothing yet.
func NewRooms(client entity.Client, feeds FeedReader) *Rooms {
	return &Rooms{client: client, feeds: feeds, topics: map[string]*roomCache{}}
}

// roomCache is the memory of one topic.
type roomCache struct {
	mu      sync.Mutex
	run     store.RunNo // of the topic; 0: not known
	room    int64       // events that may be published before it is read again
	read    time.Time
	refused int64 // publications of which the topic was not notified
}

// roomFor is how long a reading counts.
const roomFor = time.Second

// reserve is the room below which a topic is read each time.
func reserve(most int) int64 { return max(int64(most)/8, 64) }

// Admit takes room for one event in a topic. The error wraps ErrFull if there is none.
// The topic is notified of refusals, of those of one moment together.
func (r *Rooms) Admit(ctx context.Context, name string, s event.Settings) error {
	if s.Cap < 0 {
		return nil
	}
	c := r.of(name)
	if c.take(s.Cap) {
		return nil
	}
	run, err := r.find(ctx, c, name)
	if err != nil || run == 0 {
		return err
	}
	stats, _, err := ReadStats(ctx, r.feeds, run)
	if err != nil {
		return fmt.Errorf("how %s stands: %w", event.EntityID(name), err)
	}
	if c.update(run, int64(s.Cap)-stats.Pending) {
		return nil
	}
	err = fmt.Errorf("publish to topic %q: %d events are pending, of %d at most: %w", name, stats.Pending, s.Cap, ErrFull)
	return errors.Join(err, r.notifyRefused(ctx, c, name, s))
}

func (r *Rooms) of(name string) *roomCache {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.topics[name] == nil {
		r.topics[name] = &roomCache{}
	}
	return r.topics[name]
}

// find returns the run of a topic; 0: it does not exist, so it is empty.
func (r *Rooms) find(ctx context.Context, c *roomCache, name string) (store.RunNo, error) {
	c.mu.Lock()
	no := c.run
	c.mu.Unlock()
	if no != 0 {
		return no, nil
	}
	run, _, err := r.client.Get(ctx, event.EntityID(name))
	if err != nil {
		return 0, fmt.Errorf("topic %q: %w", name, err)
	}
	return run.No, nil
}

// take takes room for one event, if enough is known.
func (c *roomCache) take(most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.room <= reserve(most) || time.Since(c.read) > roomFor {
		return false
	}
	c.room--
	return true
}

// update notes a reading, and takes room for one event. It reports false if there is none.
func (c *roomCache) update(run store.RunNo, room int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run, c.room, c.read = run, room-1, time.Now()
	if room <= 0 {
		c.refused++
	}
	return room > 0
}

// notifyRefused sends the topic how many publications were refused since it was sent
// that last.
func (r *Rooms) notifyRefused(ctx context.Context, c *roomCache, name string, s event.Settings) error {
	c.mu.Lock()
	n := c.refused
	c.refused = 0
	c.mu.Unlock()
	if n == 0 {
		return nil // another call has sent it
	}
	id := uuid.NewString()
	command := event.Publish(name, id, id, &event.Publication{Settings: s, Refused: n, Only: true}, nil)
	if _, err := r.client.Tell(ctx, command.RunID, *command.Item); err != nil {
		c.mu.Lock()
		c.refused += n
		c.mu.Unlock()
		return fmt.Errorf("count what topic %q refuses: %w", name, err)
	}
	return nil
}
