package topic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/event"
	"github.com/stet-run/stet/internal/payload"
	"github.com/stet-run/stet/store"
)

// ErrFull says that a topic keeps as many events as its Cap says, or as many bytes as its
// CapBytes.
var ErrFull = errors.New("the topic is full")

// FeedReader reads what entities publish. A store.Store is one.
type FeedReader interface {
	Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error)
}

// Reader reads topics and the runs that receive from them. A store.Store is one.
type Reader interface {
	FeedReader
	History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error)
	List(ctx context.Context, f store.Filter) (store.Page, error)
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
	store  Reader

	mu     sync.Mutex
	topics map[string]*roomCache
}

// NewRooms returns a Rooms that knows nothing yet.
func NewRooms(client entity.Client, reader Reader) *Rooms {
	return &Rooms{client: client, store: reader, topics: map[string]*roomCache{}}
}

// roomCache is the memory of one topic.
type roomCache struct {
	mu      sync.Mutex
	run     store.RunNo // of the topic; 0: not known
	room    int64       // events that may be published before it is read again
	bytes   int64       // likewise
	read    time.Time
	looked  time.Time // for runs that have ended
	refused int64     // publications of which the topic was not notified
}

// roomFor is how long a reading counts.
const roomFor = time.Second

// reserve is the room below which a topic is read each time: the events, and the bytes.
func reserve(s *event.Settings) (events, bytes int64) {
	if s.Cap > 0 {
		events = max(int64(s.Cap)/8, 64)
	}
	if s.CapBytes > 0 {
		bytes = s.CapBytes / 8
	}
	return events, bytes
}

// Admit takes room for one event of a size in a topic. The error wraps ErrFull if there is
// none. The topic is notified of refusals, of those of one moment together.
func (r *Rooms) Admit(ctx context.Context, name string, s event.Settings, size int64) error {
	if s.Cap < 0 && s.CapBytes <= 0 {
		return nil
	}
	c := r.of(name)
	if c.take(&s, size) {
		return nil
	}
	run, err := r.find(ctx, c, name)
	if err != nil || run == 0 {
		return err
	}
	stats, _, err := ReadStats(ctx, r.store, run)
	if err != nil {
		return fmt.Errorf("how %s stands: %w", event.EntityID(name), err)
	}
	room, bytes := stats.room(s)
	if c.update(run, room, bytes, size) {
		return nil
	}
	if ended, err := r.buryEnded(ctx, c, name, run); err != nil || ended {
		return err
	}
	pending := fmt.Sprintf("%d events are pending, of %d at most", stats.wanted(), s.Cap)
	if room > 0 {
		pending = fmt.Sprintf("events of %d bytes are pending, of %d at most", stats.wantedBytes(), s.CapBytes)
	}
	err = fmt.Errorf("publish to topic %q: %s; %s: %w", name, pending, r.blame(ctx, &stats), ErrFull)
	return errors.Join(err, r.notifyRefused(ctx, c, name, s))
}

// buryEnded notifies a full topic of the runs that have ended: what they have not received
// counts no more. It reports whether there were some, and looks once a second.
func (r *Rooms) buryEnded(ctx context.Context, c *roomCache, name string, run store.RunNo) (bool, error) {
	c.mu.Lock()
	look := c.looked.IsZero() || time.Since(c.looked) > roomFor
	if look {
		c.looked = time.Now()
	}
	c.mu.Unlock()
	if !look {
		return false, nil
	}
	bad := func(err error) (bool, error) {
		return false, fmt.Errorf("look who receives from topic %q: %w", name, err)
	}
	entries, err := r.store.History(ctx, store.HistoryQuery{Run: run, After: runLoc[:1], Values: true})
	if err == nil {
		err = payload.ReadableEntries(entries)
	}
	if err != nil {
		return bad(err)
	}
	nos, err := idleReaders(entries)
	if err != nil {
		return bad(err)
	}
	var ended []store.RunNo
	for page := range slices.Chunk(nos, store.MaxPage) {
		known, err := r.store.List(ctx, store.Filter{Nos: page, Limit: store.MaxPage})
		if err != nil {
			return bad(err)
		}
		alive := map[store.RunNo]bool{}
		for i := range known.Runs {
			alive[known.Runs[i].No] = !known.Runs[i].Status.Terminal()
		}
		for _, no := range page {
			if !alive[no] {
				ended = append(ended, no)
			}
		}
	}
	if len(ended) == 0 {
		return false, nil
	}
	command := event.Leave(name, uuid.NewString(), ended)
	if _, err := r.client.Tell(ctx, command.RunID, *command.Item); err != nil {
		return false, fmt.Errorf("notify topic %q of runs that have ended: %w", name, err)
	}
	return true, nil
}

// blame says why a topic is full.
func (r *Rooms) blame(ctx context.Context, stats *Stats) string {
	if stats.Settings.Mode == event.Consumed || stats.Slow == 0 {
		return "no run has received them"
	}
	page, err := r.store.List(ctx, store.Filter{Nos: []store.RunNo{stats.Slow}})
	if err != nil || len(page.Runs) == 0 {
		return "some run has not received them"
	}
	return fmt.Sprintf("run %q is the furthest behind", page.Runs[0].ID)
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
func (c *roomCache) take(s *event.Settings, size int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	events, bytes := reserve(s)
	if c.room <= events || c.bytes-size <= bytes || time.Since(c.read) > roomFor {
		return false
	}
	c.room--
	c.bytes -= size
	return true
}

// update notes a reading, and takes room for one event. It reports false if there is none.
func (c *roomCache) update(run store.RunNo, room, bytes, size int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run, c.room, c.bytes, c.read = run, room-1, bytes-size, time.Now()
	if room <= 0 || bytes <= 0 {
		c.refused++
		return false
	}
	return true
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
