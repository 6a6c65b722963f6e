package redis_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
	"github.com/stet-run/stet/store/storetest"
)

// TestCluster checks the store on a cluster of six servers: against the contract, and
// when a master dies.
func TestCluster(t *testing.T) {
	slowly := []string{"key-load-delay 50", "loading-process-events-interval-bytes 1024"}
	cluster := servers.NewRedisCluster(t, append(slowly, servers.Forgetful...)...)
	stores := 0
	t.Run("Contract", func(t *testing.T) {
		storetest.RunCases(t, func(t *testing.T, clock func() time.Time) storetest.Harness {
			open := func(t *testing.T, clock func() time.Time) storetest.Harness {
				stores++
				h := &harness{url: cluster.URL(), options: []redis.Option{
					redis.Prefix(fmt.Sprint("t", stores)), redis.Slots(7), redis.SameNumbers(), redis.Clock(clock),
					redis.Logger(slog.New(slog.DiscardHandler)),
				}}
				h.first = h.open(t)
				return h
			}
			return storetest.Spread(open, 7)(t, clock)
		})
	})
	t.Run("Spread", func(t *testing.T) {
		s := openAt(t, cluster.URL())
		d, err := s.Describe(t.Context())
		if err != nil || d.Slots != 256 {
			t.Fatalf("got %d slots, %v", d.Slots, err)
		}
		if _, _, err := s.Apply(t.Context(), starts(s, 64)); err != nil {
			t.Fatal(err)
		}
		for _, master := range cluster.Masters() {
			if keys, err := master.Command("dbsize"); err != nil || keys == "0" {
				t.Errorf("the master at %s has no keys: %v", master.Addr(), err)
			}
		}
	})
	t.Run("DeathOfAMaster", func(t *testing.T) {
		s := openAt(t, cluster.URL(), redis.Prefix("death"))
		commands := starts(s, 64)
		if err := cluster.Masters()[0].Stop(); err != nil {
			t.Fatal(err)
		}
		patiently(t, func() error {
			answers, _, err := s.Apply(t.Context(), commands)
			for i, a := range answers {
				if a.Outcome != store.Applied {
					t.Errorf("start %d: %+v", i, a)
				}
			}
			return err
		})
		page, err := s.List(t.Context(), store.Filter{Limit: 1000})
		if err != nil || len(page.Runs) != len(commands) {
			t.Errorf("got %d runs, %v", len(page.Runs), err)
		}
	})
	// A master that is reading its data says that it has no append-only file. It is away,
	// and no server that loses what it acknowledges.
	t.Run("AMasterReadsItsData", func(t *testing.T) {
		master := cluster.Masters()[0]
		filled := false
		for i := 0; i < 100 && !filled; i++ { // a slot of the master's
			_, err := master.Command("eval",
				"for i = 1, 20000 do redis.call('SET', KEYS[1] .. i, i) end return redis.status_reply('OK')", "1", fmt.Sprintf("{other-%d}", i))
			out, _ := master.Command("dbsize")
			n, _ := strconv.Atoi(out)
			filled = err == nil && n >= 20000
		}
		if !filled {
			t.Fatal("the master has not taken the keys")
		}
		if err := master.Stop(); err != nil {
			t.Fatal(err)
		}
		started := make(chan error, 1)
		go func() { started <- master.Start() }()
		opened := 0
		for done := false; !done; opened++ {
			select {
			case err := <-started:
				if err != nil {
					t.Fatal(err)
				}
				done = true
			default:
			}
			s, err := redis.Open(t.Context(), cluster.URL(), redis.Prefix("reads"), redis.Logger(slog.New(slog.DiscardHandler)))
			if err == nil {
				err = s.Close()
			}
			if err != nil && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
				t.Fatal(err)
			}
		}
		if opened < 2 {
			t.Error("nobody has asked the server while it was reading")
		}
	})
}

// starts are starts of runs, each in the slot of its ID.
func starts(s *redis.Store, n int) []store.Command {
	commands := make([]store.Command, n)
	for i := range commands {
		commands[i] = start(fmt.Sprint("run-", i))
		commands[i].Start.Shard.Slot = redis.SlotOf(s, commands[i].Start.ID)
	}
	return commands
}

// A store that sentinels watch over goes on with the replica when its master dies. It
// says at open what that may lose.
func TestSentinelFailover(t *testing.T) {
	sentinel := servers.NewRedisSentinel(t, servers.Durable...)
	s := openAt(t, sentinel.URL(), redis.Slots(1))
	d, err := s.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := "the failover to a replica may lose the last acknowledgements"; !strings.Contains(d.Durable, want) {
		t.Errorf("described as %q; want %q in it", d.Durable, want)
	}
	if _, err := redis.Open(context.Background(), sentinel.Replica.URL()); !errors.Is(err, store.ErrInvalid) ||
		!strings.Contains(fmt.Sprint(err), "expected a master, found a slave") {
		t.Errorf("the replica is opened: %v", err)
	}
	if _, _, err := s.Apply(t.Context(), []store.Command{start("before")}); err != nil {
		t.Fatal(err)
	}
	patiently(t, func() error { // WAIT knows of the writes of its own connection alone
		got, err := sentinel.Replica.Command("hexists", "{stet:0}id", "before")
		if err == nil && got != "1" {
			return fmt.Errorf("%w: the replica has not followed", store.ErrUnavailable)
		}
		return err
	})
	if err := sentinel.Master.Stop(); err != nil {
		t.Fatal(err)
	}
	patiently(t, func() error { _, _, err := s.Apply(t.Context(), []store.Command{start("after")}); return err })
	page, err := s.List(t.Context(), store.Filter{})
	if err != nil || len(page.Runs) != 2 {
		t.Errorf("after the failover there are %d runs, %v", len(page.Runs), err)
	}
}

// The same on Valkey.
func TestValkeyContract(t *testing.T) {
	server := servers.NewValkey(t, servers.Forgetful...)
	stores := 0
	storetest.RunCases(t, func(t *testing.T, clock func() time.Time) storetest.Harness {
		stores++
		h := &harness{url: server.URL(), options: []redis.Option{
			redis.Prefix(fmt.Sprint("t", stores)), redis.Slots(1), redis.Clock(clock),
			redis.Logger(slog.New(slog.DiscardHandler)),
		}}
		h.first = h.open(t)
		return h
	})
}
