package redis_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// statistic returns a number of INFO.
func statistic(t *testing.T, server *servers.Redis, section, name string) int {
	t.Helper()
	text, err := ask(t, server.Addr(), "info", section)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(text, name)
	n, err := strconv.Atoi(rest[:max(0, strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' }))])
	if !ok || err != nil {
		t.Fatalf("no %s in %s", name, text)
	}
	return n
}

func configSet(t *testing.T, server *servers.Redis, name, value string) {
	t.Helper()
	if out, err := ask(t, server.Addr(), "config", "set", name, value); err != nil || out != "OK" {
		t.Fatalf("config set %s %s: %s, %v", name, value, out, err)
	}
}

// endedRuns makes runs that have ended, and returns the number of the last batch.
func endedRuns(t *testing.T, s *redis.Store, leases []store.Lease, n int) (batch int64) {
	t.Helper()
	for first := 0; first < n; first += 200 {
		b := store.Batch{Node: node.ID, Boot: node.Boot, Leases: leases}
		for i := range 200 {
			b.Commands = append(b.Commands, start(fmt.Sprintf("%05d", first+i)))
		}
		batch++
		b.No = batch
		result, err := s.Commit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		batch++
		b.No, b.Commands = batch, nil
		for _, a := range result.Commands {
			b.Turns = append(b.Turns, &store.Turn{Run: a.Run.No, Shard: shard, Update: &store.Update{Status: store.Succeeded}})
		}
		if _, err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	return batch
}

// A full server keeps its leases, and what has outlived its retention is deleted: then
// there is room again.
func TestFullServerIsSwept(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]redis.Option{"one part": nil, "spread": {redis.Spread()}} {
		t.Run(name, func(t *testing.T) {
			server := servers.NewRedis(t, servers.Durable...)
			at := time.Now()
			s := openAt(t, server.URL(), append(options, redis.Slots(1), redis.Clock(func() time.Time { return at }))...)
			leases := acquire(t, s, shard)
			endedRuns(t, s, leases, 1000)
			at = at.Add(24 * time.Hour)
			leases = acquire(t, s, shard)
			configSet(t, server, "maxmemory", "1mb")
			if out, err := server.Command("set", "more", "x"); !strings.HasPrefix(out, "OOM") {
				t.Fatalf("the server is not full: %q, %v", out, err)
			}
			if _, err := s.Register(t.Context(), node); err != nil {
				t.Errorf("register: %v", err)
			}
			if got, _, err := s.Renew(t.Context(), leases, ttl); err != nil || !got[0].Held {
				t.Errorf("renew: %+v, %v", got, err)
			}
			if err := s.Release(t.Context(), leases); err != nil {
				t.Errorf("release: %v", err)
			}
			req := store.SweepRequest{Leases: acquire(t, s, shard), Items: true,
				Rules: []store.Retention{{Workflow: "w", Status: store.Succeeded, Keep: 1}}}
			runs := 0
			for {
				swept, err := s.Sweep(t.Context(), req)
				if err != nil {
					t.Fatalf("after %d runs: %v", runs, err)
				}
				runs += swept.Runs
				if swept.Done {
					break
				}
				req.From = swept.Next
			}
			if runs != 1000 {
				t.Errorf("%d of 1000 runs are deleted", runs)
			}
		})
	}
}

// Starts are refused before the server is full, so that the runs that are there can end.
func TestStartsAreRefusedBeforeTheServerIsFull(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	s := openAt(t, server.URL(), redis.Slots(1))
	leases := acquire(t, s, shard)
	begun, err := s.Commit(t.Context(), store.Batch{Node: node.ID, Boot: node.Boot, No: 1, Leases: leases,
		Commands: []store.Command{start("a")}})
	if err != nil {
		t.Fatal(err)
	}
	configSet(t, server, "maxmemory", strconv.Itoa(statistic(t, server, "memory", "used_memory:")*100/95))
	_, _, err = s.Apply(t.Context(), []store.Command{start("b")})
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) ||
		!strings.Contains(err.Error(), "raise maxmemory") {
		t.Errorf("a start with 95 %% used: %v", err)
	}
	if answers, _, err := s.Apply(t.Context(), []store.Command{message("a", "m")}); err != nil ||
		answers[0].Outcome != store.Applied {
		t.Errorf("a message with 95 %% used: %+v, %v", answers, err)
	}
	result, err := s.Commit(t.Context(), store.Batch{Node: node.ID, Boot: node.Boot, No: 2, Leases: leases,
		Turns: []*store.Turn{{Run: begun.Commands[0].Run.No, Shard: shard,
			Update: &store.Update{Status: store.Failed}}}})
	if err != nil || result.Turns[0].Verdict != store.Committed && result.Turns[0].Verdict != store.StillReady {
		t.Errorf("an end with 95 %% used: %+v, %v", result, err)
	}
	configSet(t, server, "maxmemory", "0")
	if answers, _, err := s.Apply(t.Context(), []store.Command{start("b")}); err != nil ||
		answers[0].Outcome != store.Applied {
		t.Errorf("a start with room again: %+v, %v", answers, err)
	}
}

// A claim of many runs is several scripts, none of which keeps the server busy for long.
func TestClaimOfManyRunsIsCutIntoScripts(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]redis.Option{"one part": nil, "spread": {redis.Spread()}} {
		t.Run(name, func(t *testing.T) {
			server := servers.NewRedis(t, servers.Forgetful...)
			s := openAt(t, server.URL(), append(options, redis.Slots(2))...)
			leases := acquire(t, s, shard, store.Shard{Group: shard.Group, Slot: 1})
			const all = 2500
			var commands []store.Command
			for i := range all {
				c := start(fmt.Sprintf("%05d", i))
				c.Start.Shard.Slot = redis.SlotOf(s, c.Start.ID)
				commands = append(commands, c)
			}
			if _, _, err := s.Apply(t.Context(), commands); err != nil {
				t.Fatal(err)
			}
			calls := func() int { return statistic(t, server, "commandstats", "cmdstat_evalsha:calls=") }
			before := calls()
			claims, err := s.Claim(t.Context(), store.ClaimRequest{Node: node.ID, Boot: node.Boot, Leases: leases,
				Limit: 2200, Workflows: []string{"w"}})
			if err != nil || len(claims.Runs) != 2200 || !claims.More {
				t.Fatalf("%d runs, more: %t, %v", len(claims.Runs), claims.More, err)
			}
			if n := calls() - before; n < 3 || n > 16 { // a look and a claim of each part and chunk, and loading
				t.Errorf("%d scripts", n)
			}
			for i, c := range claims.Runs {
				if i > 0 && c.Run.No <= claims.Runs[i-1].Run.No || !c.New {
					t.Fatalf("run %d after %d, new: %t", c.Run.No, claims.Runs[i-1].Run.No, c.New)
				}
			}
			claims, err = s.Claim(t.Context(), store.ClaimRequest{Node: node.ID, Boot: node.Boot, Leases: leases,
				Limit: 2200, Workflows: []string{"w"}})
			if err != nil || len(claims.Runs) != 300 || claims.More {
				t.Errorf("then %d runs, more: %t, %v", len(claims.Runs), claims.More, err)
			}
		})
	}
}
