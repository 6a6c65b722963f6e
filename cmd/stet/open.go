package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// opener opens the store that --db names.
type opener struct {
	db  string
	log *slog.Logger // of stores and engines: errors alone

	library stet.Library // that the engine of a server executes; nil: none
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
			Store: s, Workflows: workflows, Library: o.library, Logger: o.log, Poll: 200 * time.Millisecond, Payloads: values,
		})
		if err != nil {
			return err
		}
		return fn(e, s)
	})
}

// deciding is with, but meanwhile the engine runs: while no application works on the store,
// it carries out the requests that need no code.
func (o *opener) deciding(ctx context.Context, fn func(*stet.Engine, store.Store) error) error {
	return o.with(ctx, func(e *stet.Engine, s store.Store) error {
		work, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- decide(work, e, s) }()
		err := fn(e, s)
		stop()
		return errors.Join(err, <-ended)
	})
}

const (
	// lookEvery is how often is looked whether an application wants the store.
	lookEvery = 200 * time.Millisecond
	// giveWay is how long the store is left to an application that wants it: longer than
	// the default pause of one that stands by.
	giveWay = 3 * time.Second
)

// decide runs the engine until ctx ends. It gives the store up to an application that
// comes meanwhile: on a store with one owner that would stand by otherwise, and what needs
// its code would wait for both.
func decide(ctx context.Context, e *stet.Engine, s store.Store) error {
	for {
		begun, err := s.Describe(ctx)
		if err != nil {
			return ignoreEnd(ctx, err)
		}
		term, end := context.WithCancel(ctx)
		if begun.Slots == 1 {
			go func() {
				for !wanted(term, s, begun.Now) && wait(term, lookEvery) {
				}
				end()
			}()
		}
		err = e.Run(term)
		end()
		if err != nil || !wait(ctx, giveWay) {
			return err
		}
	}
}

// wanted reports whether an application has come since a time, or shortly before.
func wanted(ctx context.Context, s store.Store, since store.Time) bool {
	d, err := s.Describe(ctx)
	return err == nil && slices.ContainsFunc(d.Nodes, func(n store.Node) bool {
		return len(n.Workflows) > 0 && !n.Draining && n.SeenAt > since.Add(-time.Second)
	})
}

// wait reports whether so much time has passed; false: ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// ignoreEnd returns an error unless it is there because ctx has ended.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
