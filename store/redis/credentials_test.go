package redis_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// TestCredentials: each connection asks for its credentials, so a password that was replaced is
// known to those that are made later, of commits and of hints too.
func TestCredentials(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	set := func(password string) {
		t.Helper()
		for _, command := range [][]string{
			{"ACL", "SETUSER", "app", "reset", "on", ">" + password, "~*", "&*", "+@all"}, {"CLIENT", "KILL", "USER", "app"},
		} {
			if _, err := ask(t, server.Addr(), command...); err != nil {
				t.Fatal(err)
			}
		}
	}
	set("one")
	var password atomic.Value
	password.Store("one")
	var calls atomic.Int64
	s := openAt(t, server.URL(), redis.Slots(1), redis.Credentials(func(ctx context.Context) (string, string, error) {
		calls.Add(1)
		if _, bounded := ctx.Deadline(); !bounded {
			return "", "", errors.New("the call is not bounded")
		}
		return "app", password.Load().(string), nil
	}))
	leases := acquire(t, s, shard)
	commit := func(no int64, id string) func() error {
		return func() error {
			_, err := s.Commit(t.Context(), store.Batch{Node: node.ID, Boot: node.Boot, No: no, Leases: leases,
				Commands: []store.Command{start(id)}})
			return err
		}
	}
	if err := commit(1, "before")(); err != nil {
		t.Fatal(err)
	}
	before := calls.Load()
	password.Store("two")
	set("two")
	patiently(t, commit(2, "after"))
	page, err := s.List(t.Context(), store.Filter{})
	if err != nil || len(page.Runs) != 2 {
		t.Errorf("there are %d runs, %v; want 2", len(page.Runs), err)
	}
	if calls.Load() == before {
		t.Error("no connection has asked for the new password")
	}
	out := errors.New("the vault is sealed")
	_, err = redis.Open(t.Context(), server.URL(), redis.Logger(slog.New(slog.NewTextHandler(io.Discard, nil))),
		redis.Credentials(func(context.Context) (string, string, error) { return "", "", out }))
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), out.Error()) {
		t.Errorf("an error of the function gives %v", err)
	}
}
