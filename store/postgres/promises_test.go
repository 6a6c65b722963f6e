package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestNothingIsAcknowledgedOnceSettingsAreWrong: connections are made again to a server whose settings have become such
// that Open refuses it. Nothing is changed until they are right again.
func TestNothingIsAcknowledgedOnceSettingsAreWrong(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t)
	s, err := postgres.Open(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	admin, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	exec := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	n := 0
	start := func() error {
		n++
		_, _, err := s.Apply(t.Context(), []store.Command{{Start: &store.Start{ID: fmt.Sprint("r", n),
			Shard: store.Shard{Group: store.DefaultGroup}, Workflow: "w", Seed: store.Seed(make([]byte, 16))}}})
		return err
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	reconnect := "SELECT pg_terminate_backend(pid) FROM pg_stat_activity " +
		"WHERE pid<>pg_backend_pid() AND application_name='stet'"
	exec("ALTER ROLE CURRENT_USER SET synchronous_commit=off")
	exec(reconnect)
	said := false
	for range 10 {
		err := start()
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrInvalid) {
			t.Fatalf("%v; want that the store is away", err)
		}
		said = said || strings.Contains(err.Error(), "synchronous_commit")
	}
	if !said {
		t.Error("no error names the setting")
	}
	exec("ALTER ROLE CURRENT_USER RESET synchronous_commit")
	exec(reconnect)
	var last error
	for range 20 {
		if _, err := s.Register(t.Context(), store.Node{ID: "n", Boot: "n1"}); err == nil {
			if last = start(); last == nil {
				return
			}
		}
	}
	t.Errorf("the settings are right again: %v", last)
}
