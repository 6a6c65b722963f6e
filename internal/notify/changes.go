package notify

import (
	"context"
	"sync"

	"github.com/stet-run/stet/store"
)

// Changes turns the store's hints into broadcasts, one for each kind of change. It asks the
// store only while somebody listens. It is safe for concurrent use.
type Changes struct {
	next     func(context.Context) (store.Change, error)
	listener onDemand

	mu       sync.Mutex
	answered chan struct{} // each is closed, and replaced, at a change of its kind
	nodes    chan struct{}
	ready    chan struct{}
	shards   []store.ShardSet // by taker, of changes since its last TakeReady
}

// NewChanges returns the changes that next returns one after the other, as
// [store.Store].Changed does.
func NewChanges(next func(context.Context) (store.Change, error)) *Changes {
	c := &Changes{next: next, answered: make(chan struct{}), nodes: make(chan struct{}), ready: make(chan struct{})}
	c.listener.work = c.listen
	return c
}

// Listen makes hints arrive until the returned function is called.
func (c *Changes) Listen() (end func()) { return c.listener.use() }

// Answered returns a channel that is closed when an item may have been answered, a run have
// ended or a feed have changed. The caller listens.
func (c *Changes) Answered() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}

// Nodes returns a channel that is closed when nodes or leases may have changed. The caller
// listens.
func (c *Changes) Nodes() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes
}

// TakeReady returns the shards in which runs may have been made ready since a taker, one of
// small numbers, called it before, and a channel that is closed when there are more. The
// caller, one at a time of each number, listens.
func (c *Changes) TakeReady(taker int) (store.ShardSet, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.shards) <= taker {
		c.shards = append(c.shards, store.ShardSet{})
	}
	shards := c.shards[taker]
	c.shards[taker] = store.ShardSet{}
	return shards, c.ready
}

func (c *Changes) listen(ctx context.Context) {
	for ctx.Err() == nil {
		change, err := c.next(ctx)
		if err != nil {
			<-ctx.Done() // no hints from this store any more; polling goes on
			return
		}
		c.broadcast(change)
	}
}

// broadcast wakes those that wait for a change of its kinds.
func (c *Changes) broadcast(change store.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wake := func(ch *chan struct{}) {
		close(*ch)
		*ch = make(chan struct{})
	}
	if change.Answered {
		wake(&c.answered)
	}
	if change.Nodes {
		wake(&c.nodes)
	}
	if change.Ready != (store.ShardSet{}) {
		for i := range c.shards {
			sum := store.Change{Ready: c.shards[i]}
			sum.Add(change)
			c.shards[i] = sum.Ready
		}
		wake(&c.ready)
	}
}
