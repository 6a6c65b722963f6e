package queues_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/queues"
	"github.com/stet-run/stet/store"
)

// shelf is a store with one queue, whose reads it counts.
type shelf struct {
	store.Store
	name  string
	state permit.State
	inbox []store.Item

	mu    sync.Mutex
	reads int

	beforeInbox func()        // called when the inbox is read
	slow        chan struct{} // a list takes until it is closed; nil: no time
}

func (s *shelf) List(ctx context.Context, f store.Filter) (store.Page, error) {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	if s.slow != nil {
		select {
		case <-s.slow:
		case <-ctx.Done():
			return store.Page{}, ctx.Err()
		}
	}
	if f.IDs[0] != permit.EntityID(s.name) {
		return store.Page{}, nil
	}
	return store.Page{Runs: []store.Run{{No: 7, ID: f.IDs[0]}}}, nil
}

func (s *shelf) Feeds(context.Context, store.FeedQuery) ([]store.Feed, error) {
	return []store.Feed{{Run: 7, Name: permit.StateValue, Value: s.state.Encode()}}, nil
}

func (s *shelf) Pending(_ context.Context, q store.PendingQuery) (sum store.Pending, err error) {
	if s.beforeInbox != nil {
		s.beforeInbox()
	}
	for _, it := range s.inbox {
		if slices.Contains(q.Kinds, it.Kind) && it.Name == q.Name {
			sum.Items, sum.Last = sum.Items+1, it.ID
		}
	}
	return sum, nil
}

func (s *shelf) Inbox(_ context.Context, _ store.RunNo, ids ...string) ([]store.Item, error) {
	if len(ids) != 1 {
		return nil, errors.New("expected a read of one item, found one of the whole inbox")
	}
	return slices.DeleteFunc(slices.Clone(s.inbox), func(it store.Item) bool { return it.ID != ids[0] }), nil
}

func newQueues(s *shelf) *queues.Queues {
	return queues.New(queues.Config{
		Lines:   func(context.Context) (bool, error) { return false, nil },
		Store:   s,
		Home:    func(group, _ string) store.Shard { return store.Shard{Group: group, Slot: 3} },
		Working: func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) },
	})
}

// A start goes to the shard of the group that serves the queue, and keeps its times in
// what it asks for.
func TestEnqueue(t *testing.T) {
	s := &shelf{name: "q", state: permit.State{Exists: true, Settings: permit.Settings{Group: "g", Release: true}}}
	q := newQueues(s)
	start := &store.Start{ID: "a", At: 5, After: 6}
	if err := q.Enqueue(t.Context(), start, permit.Place{Queue: "q", Key: "k"}); err != nil {
		t.Fatal(err)
	}
	p, ok, err := permit.DecodePlace(start.Queue.Data)
	if err != nil || !ok || p.Queue != "q" || p.Key != "k" || p.Ticket == "" || !p.Release {
		t.Errorf("the place is %+v, %t, %v", p, ok, err)
	}
	if start.Shard != (store.Shard{Group: "g", Slot: 3}) || start.At != 0 || start.After != 0 {
		t.Errorf("the start is %+v", start)
	}
	fork := &store.Start{ID: "b", Queue: start.Queue}
	if err := q.EnqueueFork(t.Context(), fork); err != nil {
		t.Fatal(err)
	}
	if again, _, _ := permit.DecodePlace(fork.Queue.Data); again.Key != "k" || again.Ticket == p.Ticket {
		t.Errorf("the fork's place is %+v", again)
	}
	if err := q.EnqueueFork(t.Context(), &store.Start{ID: "c"}); err != nil {
		t.Errorf("a fork without a queue: %v", err)
	}
}

func TestThereIsNoQueue(t *testing.T) {
	s := &shelf{name: "q"}
	q := newQueues(s)
	for _, name := range []string{"other", "q"} { // q was never made: its entity has only been asked
		if _, _, err := q.State(t.Context(), name); !errors.Is(err, queues.ErrNoQueue) {
			t.Errorf("%s: %v; want ErrNoQueue", name, err)
		}
		child := &store.Start{ID: "c", Shard: store.Shard{Group: "parents"}}
		if err := q.EnqueueChild(child, permit.Place{Queue: name}); err != nil || child.Queue == nil ||
			child.Shard.Group != "parents" {
			t.Errorf("%s: a child waits as %+v, %v", name, child, err)
		}
		if put, err := q.Enqueuer(permit.Place{Queue: name}); put != nil || err != nil {
			t.Errorf("%s: an entity may enqueue: %v", name, err)
		}
	}
}

// A queue of whose creation the owner of its entity does not know yet is there.
func TestQueueThatIsBeingCreated(t *testing.T) {
	declare := func(limit int) store.Item {
		c := permit.Change{Settings: permit.Settings{Concurrency: limit, Group: "g"}}
		return store.Item{Kind: store.ItemUpdate, State: store.New, Name: permit.Create, ID: fmt.Sprint(limit),
			Value: c.Encode()}
	}
	s := &shelf{name: "q", inbox: []store.Item{declare(1), declare(2), {Kind: store.ItemAsk}}}
	q := newQueues(s)
	if state, _, err := q.State(t.Context(), "q"); err != nil || !state.Exists || state.Settings.Concurrency != 2 {
		t.Errorf("it stands as %+v, %v", state, err)
	}
	start := &store.Start{ID: "a"}
	if err := q.Enqueue(t.Context(), start, permit.Place{Queue: "q"}); err != nil || start.Shard.Group != "g" {
		t.Errorf("a start goes to %+v, %v", start.Shard, err)
	}
}

// A queue that is created between the read of its state and that of its inbox is there.
func TestQueueThatWasJustCreated(t *testing.T) {
	s := &shelf{name: "q"}
	s.beforeInbox = func() { s.state = permit.State{Exists: true, Settings: permit.Settings{Group: "g"}} }
	start := &store.Start{ID: "a"}
	if err := newQueues(s).Enqueue(t.Context(), start, permit.Place{Queue: "q"}); err != nil || start.Shard.Group != "g" {
		t.Errorf("a start goes to %+v, %v", start.Shard, err)
	}
}

// Settings are remembered for a second, or until they are forgotten.
func TestSettingsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{name: "q", state: permit.State{Exists: true}}
		q := newQueues(s)
		enqueue := func(want int) {
			t.Helper()
			put, err := q.Enqueuer(permit.Place{Queue: "q"})
			if err != nil {
				t.Fatal(err)
			}
			if put(&store.Start{ID: "a"}); s.reads != want {
				t.Errorf("the queue was read %d times; want %d", s.reads, want)
			}
		}
		enqueue(1)
		enqueue(1)
		time.Sleep(time.Second)
		enqueue(2)
		q.Forget("q")
		enqueue(3)
	})
}

// TestOneReadsTheSettings: of many starts on a queue one reads its settings, and the others wait for it. A start that
// begins after a change in this process reads again.
func TestOneReadsTheSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{name: "q", state: permit.State{Exists: true, Settings: permit.Settings{Group: "g"}},
			slow: make(chan struct{})}
		q := newQueues(s)
		var starts sync.WaitGroup
		enqueue := func(ctx context.Context, want error) {
			starts.Go(func() {
				start := &store.Start{ID: "a"}
				err := q.Enqueue(ctx, start, permit.Place{Queue: "q"})
				if !errors.Is(err, want) || want == nil && start.Shard.Group != "g" {
					t.Errorf("a start goes to %+v: %v", start.Shard, err)
				}
			})
		}
		leaving, leave := context.WithCancel(t.Context())
		enqueue(leaving, context.Canceled)
		synctest.Wait()
		for range 3 {
			enqueue(t.Context(), nil)
		}
		synctest.Wait()
		if s.reads != 1 {
			t.Errorf("%d starts read the queue, expected one", s.reads)
		}
		leave() // the three read for themselves
		synctest.Wait()
		if s.reads != 4 {
			t.Errorf("after the first start has left, the queue was read %d times, expected 4", s.reads)
		}
		for range 50 {
			enqueue(t.Context(), nil)
		}
		synctest.Wait()
		if s.reads != 5 {
			t.Errorf("50 starts have read the queue %d times, expected once", s.reads-4)
		}
		q.Forget("q")
		enqueue(t.Context(), nil)
		synctest.Wait()
		if s.reads != 6 {
			t.Errorf("a start after a change has read the queue %d times, expected once", s.reads-5)
		}
		close(s.slow)
		starts.Wait()
	})
}
