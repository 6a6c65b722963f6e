package stet

import (
	"context"
	"errors"
	"time"

	"github.com/stet-run/stet/internal/inboxes"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
)

// admission reports with ErrInboxFull that the inbox of a run is full.
type admission func(ctx context.Context, e *Engine, runID string, item *store.Item) error

// admit reports that the inbox of a run is full. A process that executes no runs may live for
// one message alone, so it looks before the first one.
func admit(ctx context.Context, e *Engine, runID string, item *store.Item) error {
	return e.inboxes.Admit(ctx, runID, item, inboxes.First(!e.inner.Owner()))
}

// admitting returns a function that is admit for what the code of a run sends with its next turn.
func admitting(e *Engine, runID string) func(context.Context, *store.Item) (*stored.Failure, error) {
	return func(ctx context.Context, item *store.Item) (full *stored.Failure, err error) {
		err = e.inboxes.Admit(ctx, runID, item, inboxes.Blindly)
		if errors.Is(err, ErrInboxFull) {
			return &stored.Failure{Code: stored.CodeInboxFull, Message: err.Error()}, nil
		}
		e.inboxes.Sent(runID, 0, item)
		return nil, err
	}
}

// lookTx bounds a look beside a transaction of the caller's, which may hold the last
// connection that there is.
const lookTx = time.Second

// admitTx is admit for what a transaction of the caller's sends. It counts what this process
// has sent, and looks only when that is much: what it cannot find out is admitted.
func admitTx(ctx context.Context, e *Engine, runID string, item *store.Item) error {
	look, cancel := context.WithTimeout(ctx, lookTx)
	defer cancel()
	err := e.inboxes.Admit(look, runID, item, inboxes.Blindly)
	if err != nil && !errors.Is(err, ErrInboxFull) && ctx.Err() == nil {
		return nil
	}
	return err
}
