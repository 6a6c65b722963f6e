package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store/sqlite"
)

// path returns the path of the file that --db names.
func (a *app) path() (string, error) {
	path, isSQLite := strings.CutPrefix(a.db, "sqlite:")
	if a.db == "" || path == "" {
		return "", usage(errors.New("no store given: use --db FILE, or set STET_DB"))
	}
	if scheme, _, isURL := strings.Cut(path, "://"); isURL && !isSQLite {
		return "", usage(fmt.Errorf("--db: expected an SQLite file, found a %s URL: this version has no such store", scheme))
	}
	return path, nil
}

// open opens the store. Only create makes a file that is not there.
func (a *app) open(ctx context.Context, create bool) (*sqlite.Store, error) {
	path, err := a.path()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); os.IsNotExist(err) && !create {
		return nil, usage(fmt.Errorf("there is no store %s: check --db, or let an application or stet migrate create it", path))
	}
	return sqlite.OpenContext(ctx, path, sqlite.Logger(a.log()))
}

// withStore calls fn with the store, which must be there.
func (a *app) withStore(ctx context.Context, fn func(*sqlite.Store) error) (err error) {
	s, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return fn(s)
}

// with calls fn with an engine that runs nothing and may know workflows.
func (a *app) with(ctx context.Context, fn func(*stet.Engine, *sqlite.Store) error, workflows ...stet.Definition) error {
	return a.withStore(ctx, func(s *sqlite.Store) (err error) {
		values, done, err := payloads()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		e, err := stet.NewContext(ctx, stet.Config{Store: s, Workflows: workflows, Logger: a.log(), Poll: 200 * time.Millisecond, Payloads: values})
		if err != nil {
			return err
		}
		return fn(e, s)
	})
}

// deciding is with, and meanwhile decides what needs no code if no application
// works on the store.
func (a *app) deciding(ctx context.Context, fn func(*stet.Engine, *sqlite.Store) error) error {
	return a.with(ctx, func(e *stet.Engine, s *sqlite.Store) error {
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
