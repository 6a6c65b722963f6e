package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// TestNothingIsAcknowledgedOnceSettingsAreWrong: a server comes back with settings by which Open would refuse it. From
// the first new connection on nothing is acknowledged, and the reason is said. When they are right again all goes on.
func TestNothingIsAcknowledgedOnceSettingsAreWrong(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	s := openAt(t, server.URL(), redis.Slots(1))
	command := func(args ...string) {
		t.Helper()
		if _, err := server.Command(args...); err != nil {
			t.Fatal(err)
		}
	}
	leases := acquire(t, s, shard)
	no := int64(0)
	commit := func(id string) error {
		no++
		_, err := s.Commit(t.Context(), store.Batch{Node: node.ID, Boot: node.Boot, No: no, Leases: leases,
			Commands: []store.Command{start(id)}})
		return err
	}
	apply := func(id string) error {
		_, _, err := s.Apply(t.Context(), []store.Command{start(id)})
		return err
	}
	for i := range 3 { // the second one has a connection of its own
		if err := errors.Join(commit(fmt.Sprint("c", i)), apply(fmt.Sprint("a", i))); err != nil {
			t.Fatal(err)
		}
	}
	command("config", "set", "maxmemory-policy", "allkeys-lru")
	command("client", "kill", "type", "normal")
	said := false
	for i := range 20 {
		for what, err := range map[string]error{"commit": commit(fmt.Sprint("d", i)), "apply": apply(fmt.Sprint("b", i))} {
			if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrInvalid) {
				t.Fatalf("%s %d: %v; want that the store is away", what, i, err)
			}
			said = said || strings.Contains(err.Error(), "maxmemory-policy")
		}
	}
	if !said {
		t.Error("no error names the setting")
	}
	command("config", "set", "maxmemory-policy", "noeviction")
	began := time.Now()
	patiently(t, func() error { return apply("last") })
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it goes on %s after the settings are right", took)
	}
}

// TestALargeAnswerClosesNoConnection: servers bound what waits for a subscriber, by default to 32 MB. Answers to reads
// do not count.
func TestALargeAnswerClosesNoConnection(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, append([]string{"client-output-buffer-limit pubsub 1mb 0 0"}, servers.Durable...)...)
	s := openAt(t, server.URL(), redis.Slots(1))
	answers, _, err := s.Apply(t.Context(), []store.Command{start("r")})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range 40 {
		c := message("r", fmt.Sprint("m", i))
		c.Item.Value = make([]byte, 100_000)
		ids = append(ids, c.Item.ID)
		if _, _, err := s.Apply(t.Context(), []store.Command{c}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		items, err := s.Inbox(t.Context(), answers[0].Run.No, ids...)
		if err != nil || len(items) != 40 {
			t.Fatalf("%d of 40 items, %v", len(items), err)
		}
	}
}
