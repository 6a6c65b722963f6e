package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// hints notifies other processes of changes, and receives their hints, by pub/sub on one
// channel. Changes during the sending of a hint share the next one. A hint may be lost, so
// its receivers poll as well.
type hints struct {
	own  string            // names this handle, which ignores its own hints
	out  *storekit.Changes // to be sent
	in   *storekit.Changes // of other processes
	stop chan struct{}     // closed by close
	done sync.WaitGroup
	once *sync.Once
}

func newHints() hints {
	return hints{out: storekit.NewChanges(), in: storekit.NewChanges(), stop: make(chan struct{}), once: &sync.Once{}}
}

// tell notifies other processes of a change, if there is one.
func (h *hints) tell(what store.Change) { h.out.Add(what) }

// hint wakes the receiver of ch, unless it is being woken already.
func hint(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (h *hints) close() {
	h.once.Do(func() { close(h.stop) })
	h.done.Wait()
}

// heard notes a hint of another process.
func (s *Store) heard(what store.Change) {
	s.hints.in.Add(what)
	if what.Nodes {
		for _, l := range s.lanes {
			l.witnesses.Stir()
		}
	}
}

// Changed implements store.Store.
func (s *Store) Changed(ctx context.Context) (store.Change, error) {
	if err := ctx.Err(); err != nil {
		return store.Change{}, err
	}
	if s.closed.Load() {
		return store.Change{}, store.ErrClosed
	}
	select {
	case <-s.hints.in.Some():
		return s.hints.in.Take(), nil
	case <-s.hints.stop:
		return store.Change{}, store.ErrClosed
	case <-ctx.Done():
		return store.Change{}, ctx.Err()
	}
}

// resubscribe is the pause after which a lost subscription is tried again.
const resubscribe = 200 * time.Millisecond

// subscribeLimit is how long a server of a cluster may take to begin a subscription.
const subscribeLimit = 2 * time.Second

// listen subscribes, and begins to send and to receive hints.
func (s *Store) listen(ctx context.Context) error {
	s.hints.own = s.handle
	channel := s.cfg.prefix + ":changed"
	life, end := context.WithCancel(context.Background())
	subscribed := make(chan struct{}, 1)
	s.hints.done.Go(func() {
		defer end()
		<-s.hints.stop
	})
	s.hints.done.Go(func() { s.watchPromises(life) })
	s.hints.done.Go(func() {
		for life.Err() == nil {
			try, giveUp := context.WithCancel(life)
			var late *time.Timer
			if s.known.cluster { // any server is asked, which may stand still; the next one is another
				late = time.AfterFunc(subscribeLimit, giveUp)
			}
			hooked := rueidis.WithOnSubscriptionHook(try, func(rueidis.PubSubSubscription) {
				if late != nil {
					late.Stop()
				}
				hint(subscribed)
				s.heard(store.Anything()) // hints may have been missed
			})
			// A connection of its own: servers bound what waits for a subscriber, and close its connection. On the
			// shared one a large answer would count.
			c, release := s.client.Dedicate()
			err := c.Receive(hooked, c.B().Subscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) {
				if !strings.HasPrefix(m.Message, s.hints.own) {
					s.heard(storekit.DecodeChange(m.Message[min(len(s.hints.own), len(m.Message)):]))
				}
			})
			c.Close()
			release()
			giveUp()
			if life.Err() == nil {
				s.cfg.log.Warn("hints from other processes are lost until the server can be reached again; polling goes on",
					"error", err)
				pause(life, resubscribe)
			}
		}
	})
	s.hints.done.Go(func() {
		for {
			select {
			case <-s.hints.out.Some():
				what := s.hints.out.Take()
				if what == (store.Change{}) {
					continue // it went with the last hint
				}
				ctx, cancel := context.WithTimeout(life, time.Second)
				message := s.hints.own + storekit.EncodeChange(what)
				_ = s.client.Do(ctx, s.client.B().Publish().Channel(channel).Message(message).Build()).Error() // a hint may be lost
				cancel()
			case <-life.Done():
				return
			}
		}
	})
	select {
	case <-subscribed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("subscribe to hints: %w", ctx.Err())
	case <-time.After(5 * time.Second):
		if s.known.cluster {
			return nil // it is tried again
		}
		return fmt.Errorf("subscribe to hints: %w: no answer within 5 s", store.ErrUnavailable)
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
