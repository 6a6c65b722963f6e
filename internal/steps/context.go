package steps

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// bodyContext is the context of a body, as which an attempt is known to it. Few bodies ask when
// it ends: only then a context is made that can be cancelled, which is entered in the one of the
// shard and locks it.
type bodyContext Attempt

// ending is the end of a body's context. Its zero value is of one that ends with its parent.
type ending struct {
	over atomic.Bool            // the body has returned
	asks atomic.Pointer[asking] // nil: nothing was asked, and nothing has cancelled it
	mu   sync.Mutex             // while asks is set
}

// asking is a context that can be cancelled.
type asking struct {
	context.Context
	cancel context.CancelCauseFunc
}

// context returns the context that can be cancelled, and makes it if there is none.
func (e *ending) context(parent context.Context) *asking {
	e.mu.Lock()
	defer e.mu.Unlock()
	asks := e.asks.Load()
	if asks == nil {
		asks = new(asking)
		asks.Context, asks.cancel = context.WithCancelCause(parent)
		if e.over.Load() {
			asks.cancel(nil)
		}
		e.asks.Store(asks)
	}
	return asks
}

// cancel ends the context. nil: the body has returned.
func (e *ending) cancel(parent context.Context, cause error) {
	if cause != nil {
		e.context(parent).cancel(cause)
		return
	}
	e.mu.Lock()
	e.over.Store(true)
	asks := e.asks.Load()
	e.mu.Unlock()
	if asks != nil {
		asks.cancel(nil)
	}
}

func (c *bodyContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

func (c *bodyContext) Done() <-chan struct{} { return c.ending.context(c.parent).Done() }

func (c *bodyContext) Err() error {
	if asks := c.ending.asks.Load(); asks != nil {
		return asks.Err()
	}
	if c.ending.over.Load() {
		return context.Canceled
	}
	return c.parent.Err()
}

type (
	attemptKey struct{}
	silentKey  struct{}
)

func (c *bodyContext) Value(key any) any {
	if key == (attemptKey{}) {
		return (*Attempt)(c)
	}
	if asks := c.ending.asks.Load(); asks != nil {
		return asks.Value(key) // package context looks for the one that can be cancelled
	}
	return c.parent.Value(key)
}

// AttemptOf returns the attempt that ctx belongs to, or nil.
func AttemptOf(ctx context.Context) *Attempt {
	a, _ := ctx.Value(attemptKey{}).(*Attempt)
	return a
}

// Beat says that the attempt of ctx is alive: it renews its timeout and delivers detail to
// the run, at most once a second; nil: there is none. If there is no attempt it does
// nothing.
func Beat(ctx context.Context, detail []byte) {
	if a := AttemptOf(ctx); a != nil && ctx.Value(silentKey{}) == nil {
		a.beat(detail)
	}
}

// WithoutBeats returns a context of the same attempt in which Beat does nothing.
func WithoutBeats(ctx context.Context) context.Context {
	return context.WithValue(ctx, silentKey{}, true)
}
