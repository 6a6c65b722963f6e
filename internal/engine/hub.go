package engine

import (
	"context"
	"sync"
)

// hub turns the store's Changed into a broadcast. It asks the store only while
// somebody listens.
type hub struct {
	changed func(context.Context) error
	after   func(context.Context) // called after each change

	mu        sync.Mutex
	listeners int
	next      chan struct{} // closed at the next change
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
		h.stop, h.done, h.next = cancel, make(chan struct{}), make(chan struct{})
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

// wait returns a channel that is closed at the next change. The caller listens.
func (h *hub) wait() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next
}

func (h *hub) run(ctx context.Context, done, former chan struct{}) {
	defer close(done)
	if former != nil {
		<-former
	}
	for ctx.Err() == nil {
		if err := h.changed(ctx); err != nil {
			if ctx.Err() == nil {
				<-ctx.Done() // no hints from this store any more; polling goes on
			}
			return
		}
		h.mu.Lock()
		close(h.next)
		h.next = make(chan struct{})
		h.mu.Unlock()
		h.after(ctx)
	}
}
