package stettest

import (
	"context"

	"github.com/stet-run/stet/internal/steps"
)

// gate executes functions outside of the bubble, where it is made. While a call is
// under way the caller is not durably blocked, so time stands still.
type gate struct {
	calls   chan func()
	pending chan *passage // made outside, one for each call
}

// passage connects a call and its caller. Its channels belong to no bubble.
type passage struct {
	cancel chan context.CancelFunc
	done   chan error
}

// newGate returns a gate that works until stop is called. Both are called outside
// of the bubble.
func newGate() (g *gate, stop func()) {
	g = &gate{calls: make(chan func()), pending: make(chan *passage)}
	ended := make(chan struct{})
	go func() {
		for {
			p := &passage{cancel: make(chan context.CancelFunc, 1), done: make(chan error, 1)}
			select {
			case g.pending <- p:
				go (<-g.calls)()
			case <-ended:
				return
			}
		}
	}()
	return g, func() { close(ended) }
}

// outsideContext has the values of a context and no end.
type outsideContext struct {
	context.Context
	values context.Context
}

func (c outsideContext) Value(key any) any { return c.values.Value(key) }

// call executes fn outside of the bubble.
func (g *gate) call(ctx context.Context, fn func(context.Context) error) error {
	ctx = steps.WithoutBeats(ctx)
	p := <-g.pending
	g.calls <- func() {
		out, cancel := context.WithCancel(outsideContext{context.Background(), ctx})
		defer cancel()
		_ = out.Done() // made here, it belongs to no bubble
		p.cancel <- cancel
		p.done <- guarded(out, fn)
	}
	stop := context.AfterFunc(ctx, <-p.cancel)
	defer stop()
	outcome := <-p.done
	if thrown, ok := outcome.(*thrown); ok {
		panic(thrown.value)
	}
	return outcome
}

// thrown carries a panic into the bubble.
type thrown struct{ value any }

func (*thrown) Error() string { return "panic" }

func guarded(ctx context.Context, fn func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &thrown{p}
		}
	}()
	return fn(ctx)
}
