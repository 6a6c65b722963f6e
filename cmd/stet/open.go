package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// opener opens the store that --db names.
type opener struct {
	db  string
	log *slog.Logger // of stores and engines: errors alone
}

// createIt says what to do if there is no store.
const createIt = "check --db, or let an application or stet migrate create it"

// open opens the store. Only with create it creates one that does not exist, or changes the
// schema of one that is there.
func (o *opener) open(ctx context.Context, create bool) (store.Store, error) {
	kind, address, err := o.backend()
	if err != nil {
		return nil, err
	}
	if !create {
		if err := kind.usable(ctx, address); err != nil {
			return nil, err
		}
	}
	return kind.open(ctx, address, o.log)
}

// withStore calls fn with the store, which must exist.
func (o *opener) withStore(ctx context.Context, fn func(store.Store) error) (err error) {
	s, err := o.open(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return fn(s)
}

// with calls fn with an engine that runs nothing and may know workflows.
func (o *opener) with(
	ctx context.Context, fn func(*stet.Engine, store.Store) error, workflows ...stet.Definition,
) error {
	return o.withStore(ctx, func(s store.Store) (err error) {
		values, done, err := payloads()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		e, err := stet.New(ctx, stet.Config{
			Store: s, Workflows: workflows, Logger: o.log, Poll: 200 * time.Millisecond, Payloads: values,
		})
		if err != nil {
			return err
		}
		return fn(e, s)
	})
}

// deciding is with, but meanwhile the engine runs: if no application works on the store,
// it carries out the requests that need no code.
func (o *opener) deciding(ctx context.Context, fn func(*stet.Engine, store.Store) error) error {
	return o.with(ctx, func(e *stet.Engine, s store.Store) error {
		work, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- e.Run(work) }()
		err := fn(e, s)
		stop()
		return errors.Join(err, <-ended)
	})
}
