package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestOnlyMigrateChangesASchema: a store with an older schema is opened by nothing that does not
// say that it changes it.
func TestOnlyMigrateChangesASchema(t *testing.T) {
	have, opened := 1, 0
	kind := &backend{
		schemes: []string{"old"},
		open: func(context.Context, string, *slog.Logger) (store.Store, error) {
			opened++
			have = 2
			return memory.New(), nil
		},
		schema: func(context.Context, string) (int, int, error) { return have, 2, nil },
	}
	backends = append(backends, kind)
	defer func() { backends = backends[:len(backends)-1] }()
	o := &opener{db: "old://db", log: slog.New(slog.DiscardHandler)}
	read := func() error { return o.withStore(t.Context(), func(store.Store) error { return nil }) }
	err := read()
	if !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), "expected schema 2, found 1") ||
		!strings.Contains(err.Error(), "stet migrate") || opened != 0 {
		t.Fatalf("a reader of an older store: %v; opened %d times", err, opened)
	}
	s, err := o.open(t.Context(), true)
	if err != nil || opened != 1 {
		t.Fatalf("migrate: %v; opened %d times", err, opened)
	}
	if err := errors.Join(s.Close(), read()); err != nil || opened != 2 {
		t.Errorf("a reader of a store that is up to date: %v; opened %d times", err, opened)
	}
}

// TestDecidingGivesWayToAnApplication: a command that waits for a decision, on a file that
// nobody works on, leaves it to an application that starts meanwhile.
func TestDecidingGivesWayToAnApplication(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // less than a lease
	defer cancel()
	o := &opener{db: filepath.Join(t.TempDir(), "app.db"), log: slog.New(slog.DiscardHandler)}
	db, err := o.open(ctx, true)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = o.deciding(ctx, func(command *stet.Engine, _ store.Store) error {
		owns(ctx, t, command)
		app, err := stet.New(ctx, stet.Config{Store: db, Workflows: []stet.Definition{double}, Logger: o.log})
		if err != nil {
			return err
		}
		work, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- app.Run(work) }()
		owns(ctx, t, app)
		stop()
		return <-ended
	})
	if err != nil {
		t.Error(err)
	}
}

// owns waits until an engine owns its store.
func owns(ctx context.Context, t *testing.T, e *stet.Engine) {
	t.Helper()
	for !e.Owner() {
		if !wait(ctx, 10*time.Millisecond) {
			t.Fatal("the engine does not get the store")
		}
	}
}
