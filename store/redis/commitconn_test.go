package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// commitConnOf returns the server's number of the connection on which a store commits: it has
// no subscription, and the shared one is older.
func commitConnOf(t *testing.T, server *servers.Redis) (id, last string) {
	t.Helper()
	list, err := ask(t, server.Addr(), "client", "list")
	if err != nil {
		t.Fatal(err)
	}
	shared := ""
	for line := range strings.Lines(list) { // in the order in which they were made
		client := map[string]string{}
		for _, field := range strings.Fields(line) {
			key, value, _ := strings.Cut(field, "=")
			client[key] = value
		}
		switch {
		case client["sub"] != "0" || client["cmd"] == "client|list":
		case shared == "":
			shared = client["id"]
		default:
			id, last = client["id"], client["cmd"]
		}
	}
	return id, last
}

// Commits go over a connection of their own. If that has died unnoticed, they go over the
// shared one, once each, and return no error. A commit whose context is cancelled while the
// server stands still ends.
func TestCommitConn(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	s := openAt(t, server.URL(), redis.Slots(1))
	b := store.Batch{Node: node.ID, Boot: node.Boot, Leases: acquire(t, s, shard)}
	var run store.Run
	commit := func(ctx context.Context) error {
		b.No++
		b.Commands, b.Turns = nil, nil
		if run.No == 0 {
			b.Commands = []store.Command{start("a")}
		} else {
			entry := store.Entry{Loc: fmt.Sprint("step ", b.No), Kind: store.KindStep, State: store.Done}
			b.Turns = []*store.Turn{{Run: run.No, Shard: shard, Entries: []store.Entry{entry}}}
		}
		result, err := s.Commit(ctx, b)
		if err == nil && run.No == 0 {
			run = result.Commands[0].Run
		} else if err == nil && result.Turns[0].Verdict != store.Committed {
			t.Errorf("batch %d: %s %s", b.No, result.Turns[0].Verdict, result.Turns[0].Reason)
		}
		return err
	}
	ready := func() (id string) {
		t.Helper()
		patiently(t, func() error {
			if err := commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			var last string
			if id, last = commitConnOf(t, server); last != "evalsha" {
				return fmt.Errorf("%w: no commit has come over a line", store.ErrUnavailable)
			}
			return nil
		})
		return id
	}
	for range 3 {
		id := ready()
		if got, err := ask(t, server.Addr(), "client", "kill", "id", id); err != nil || got != "1" {
			t.Fatalf("killing connection %s: %q, %v", id, got, err)
		}
		if err := commit(t.Context()); err != nil {
			t.Fatalf("after the line was cut: %v", err)
		}
	}
	id := ready()
	redis.RestCommitConn(s)
	patiently(t, func() error {
		if now, _ := commitConnOf(t, server); now != "" {
			return fmt.Errorf("%w: connection %s is there", store.ErrUnavailable, now)
		}
		return nil
	})
	if again := ready(); again == id {
		t.Error("the line that was closed is there")
	}
	entries, err := s.History(t.Context(), store.HistoryQuery{Run: run.No})
	if err != nil || len(entries) != int(b.No)-1 {
		t.Errorf("expected %d entries, found %d: %v", b.No-1, len(entries), err)
	}
	ready()
	if _, err := ask(t, server.Addr(), "client", "pause", "600000", "all"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(50*time.Millisecond, cancel).Stop()
	begun := time.Now()
	if err := commit(ctx); !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("a commit that is cancelled: %v", err)
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("a commit that is cancelled takes %s", took)
	}
}
