package engine

import (
	"context"
	"sync"

	"github.com/stet-run/stet/store"
)

// hub turns the store's Changed into broadcasts, one for each kind of change. It asks
// the store only while somebody listens.
type hub struct {
	changed func(context.Context) (store.Change, error)
	after   func(context.Context) // called after each change of the kind told

	mu        sync.Mutex
	listeners int
	told      chan struct{} // closed at the next change of its kind
	nodes     chan struct{}
	ready     chan struct{}
	shards    store.ShardSet // of changes since they were taken
	stop      context.CancelFunc
	done      chan struct{} // of the listening goroutine
}

// listen keeps the hub awake until the returned function is called, which also
// waits for the hub's goroutine if it was the last.
func (h *hub) listen() func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners++
	if h.listeners == 1 {
		former := h.done
		ctx, cancel := context.WithCancel(context.Background())
		h.stop, h.done = cancel, make(chan struct{})
		h.told, h.nodes, h.ready = make(chan struct{}), make(chan struct{}), make(chan struct{})
		go h.run(ctx, h.done, former)
	}
	return sync.OnceFunc(func() {
		h.mu.Lock()
		h.listeners--
		last, done := h.listeners == 0, h.done
		if last {
			h.stop()
		}
		h.mu.Unlock()
		if last {
			<-done
		}
	})
}

// wait returns a channel that is closed when an item may have been answered, a run have
// ended or a feed have changed. The caller listens.
func (h *hub) wait() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

// waitNodes returns a channel that is closed when nodes or leases may have changed. The
// caller listens.
func (h *hub) waitNodes() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.nodes
}

// takeReady returns the shards in which runs may have been made ready since it was called
// before, and a channel that is closed when there are more. The caller, one at a time,
// listens.
func (h *hub) takeReady() (store.ShardSet, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	shards := h.shards
	h.shards = store.ShardSet{}
	return shards, h.ready
}

// tell wakes those who wait for a change of its kind.
func (h *hub) tell(c store.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	again := func(ch *chan struct{}) {
		close(*ch)
		*ch = make(chan struct{})
	}
	if c.Answered {
		again(&h.told)
	}
	if c.Nodes {
		again(&h.nodes)
	}
	if c.Ready != (store.ShardSet{}) {
		sum := store.Change{Ready: h.shards}
		sum.Add(c)
		h.shards = sum.Ready
		again(&h.ready)
	}
}

func (h *hub) run(ctx context.Context, done, former chan struct{}) {
	defer close(done)
	if former != nil {
		<-former
	}
	for ctx.Err() == nil {
		change, err := h.changed(ctx)
		if err != nil {
			if ctx.Err() == nil {
				<-ctx.Done() // no hints from this store any more; polling goes on
			}
			return
		}
		h.tell(change)
		if change.Answered {
			h.after(ctx)
		}
	}
}
