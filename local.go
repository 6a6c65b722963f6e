package stet

import (
	"context"
	"sync"
)

// Local is a resource that is not recorded: a connection, a temporary folder. It
// is opened by the first step that asks for it, once per stay of the run in a
// node's memory, and closed when the branch that declared it ends, or the
// iteration of a Loop, in whichever way, eviction and shutdown included.
type Local[T any] struct {
	open  func(context.Context) (T, error)
	close func(T) error

	mu     sync.Mutex
	opened bool
	closed bool
	value  T
}

// NewLocal declares a resource. close may be nil.
func NewLocal[T any](ctx Context, open func(context.Context) (T, error), close func(T) error) *Local[T] {
	l := &Local[T]{open: open, close: close}
	ctx.mustBeGiven()
	log := ctx.env.engine.log
	runID := ctx.env.run.ID
	ctx.branch.OnExit(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.closed = true
		if l.opened && l.close != nil {
			if err := l.close(l.value); err != nil {
				log.Warn("closing a local resource", "run_id", runID, "error", err)
			}
		}
	})
	return l
}

// Get returns the resource and opens it if it is not open yet. It is called
// inside a step. Concurrent calls wait for one another; an error is not kept.
// After the branch has ended it returns ErrCancelled.
func (l *Local[T]) Get(ctx context.Context) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		var zero T
		return zero, ErrCancelled
	}
	if l.opened {
		return l.value, nil
	}
	v, err := l.open(ctx)
	if err == nil {
		l.value, l.opened = v, true
	}
	return v, err
}
