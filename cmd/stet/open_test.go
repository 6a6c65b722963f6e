package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

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
