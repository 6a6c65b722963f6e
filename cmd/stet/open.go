package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// open opens the store. Only create makes one that is not there.
func (a *app) open(ctx context.Context, create bool) (store.Store, error) {
	kind, address, err := a.backend()
	if err != nil {
		return nil, err
	}
	if !create {
		switch missing, err := kind.missing(ctx, address); {
		case err != nil:
			return nil, err
		case missing && kind.isFile():
			return nil, usage(fmt.Errorf("there is no store %s: check --db, or let an application or stet migrate create it", address))
		case missing:
			return nil, usage(errors.New("there is no store in that database: check --db, or let an application or stet migrate create it"))
		}
	}
	return kind.open(ctx, address, a.log())
}

// withStore calls fn with the store, which must be there.
func (a *app) withStore(ctx context.Context, fn func(store.Store) error) (err error) {
	s, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return fn(s)
}

// with calls fn with an engine that runs nothing and may know workflows.
func (a *app) with(ctx context.Context, fn func(*stet.Engine, store.Store) error, workflows ...stet.Definition) error {
	return a.withStore(ctx, func(s store.Store) (err error) {
		values, done, err := payloads()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		e, err := stet.New(ctx, stet.Config{Store: s, Workflows: workflows, Logger: a.log(), Poll: 200 * time.Millisecond, Payloads: values})
		if err != nil {
			return err
		}
		return fn(e, s)
	})
}

// deciding is with, and meanwhile decides what needs no code if no application
// works on the store.
func (a *app) deciding(ctx context.Context, fn func(*stet.Engine, store.Store) error) error {
	return a.with(ctx, func(e *stet.Engine, s store.Store) error {
		work, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- e.Run(work) }()
		err := fn(e, s)
		stop()
		return errors.Join(err, <-ended)
	})
}

func (a *app) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelError}))
}
