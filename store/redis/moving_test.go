package redis_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// While a cluster moves a hash slot each act on it is refused as unavailable, on either side, and writes nothing. When
// the slot has moved everything is there.
func TestHalfMovedSlot(t *testing.T) {
	soak.Faults(t)
	cluster := servers.NewRedisCluster(t, servers.Forgetful...)
	s := openAt(t, cluster.URL(), redis.Slots(1))
	leases := acquire(t, s, shard)
	if _, err := s.Register(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	b := store.Batch{Node: node.ID, Boot: node.Boot, No: 1, Leases: leases}
	for i := range 5 {
		b.Commands = append(b.Commands, start(fmt.Sprint("run ", i)))
	}
	result, err := s.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	run := result.Commands[0].Run
	if _, _, err := s.Apply(t.Context(), []store.Command{message("run 0", "m")}); err != nil {
		t.Fatal(err)
	}
	b.No, b.Commands = 2, []store.Command{message("run 0", "n"), start("another")}
	b.Turns = []*store.Turn{{Run: run.No, Shard: shard,
		Entries: []store.Entry{{Loc: "x", Kind: store.KindStep, State: store.Done}}}}
	acts := map[string]func() error{
		"acquire":  func() error { _, _, err := s.Acquire(t.Context(), node, []store.Shard{shard}, ttl); return err },
		"renew":    func() error { _, _, err := s.Renew(t.Context(), leases, ttl); return err },
		"release":  func() error { return s.Release(t.Context(), leases) },
		"register": func() error { _, err := s.Register(t.Context(), node); return err },
		"commit":   func() error { _, err := s.Commit(t.Context(), b); return err },
		"apply":    func() error { _, _, err := s.Apply(t.Context(), b.Commands); return err },
		"claim": func() error {
			_, err := s.Claim(t.Context(), store.ClaimRequest{Node: node.ID, Boot: node.Boot, Leases: leases,
				Workflows: []string{"w"}, Limit: 10})
			return err
		},
		"sweep": func() error {
			_, err := s.Sweep(t.Context(), store.SweepRequest{Leases: leases, Items: true})
			return err
		},
		"describe":     func() error { _, err := s.Describe(t.Context()); return err },
		"load":         func() error { _, _, err := s.Load(t.Context(), []store.RunNo{run.No}); return err },
		"list":         func() error { _, err := s.List(t.Context(), store.Filter{Limit: 10}); return err },
		"count":        func() error { _, err := s.Count(t.Context(), store.Filter{}); return err },
		"history":      func() error { _, err := s.History(t.Context(), store.HistoryQuery{Run: run.No}); return err },
		"inbox":        func() error { _, err := s.Inbox(t.Context(), run.No); return err },
		"audit":        func() error { _, err := s.Audit(t.Context(), run.No); return err },
		"feeds":        func() error { _, err := s.Feeds(t.Context(), store.FeedQuery{Runs: []store.RunNo{run.No}}); return err },
		"stream":       func() error { _, err := s.Stream(t.Context(), store.StreamQuery{Run: run.No, Name: "s"}); return err },
		"dead letters": func() error { _, err := s.DeadLetters(t.Context(), store.DeadFilter{Limit: 10}); return err },
	}
	slot := cluster.SlotOf(t, "{stet:0}n")
	from := cluster.Owner(t, slot)
	masters := cluster.Masters()
	to := masters[(slices.Index(masters, from)+1)%len(masters)]
	steps := 0
	cluster.MoveSlot(t, slot, to, func(left int) {
		if left == 0 || len(to.Keys(t, slot, 1)) == 0 {
			return
		}
		steps++
		before := dumps(t, slot, from, to)
		for name, act := range acts {
			if err := act(); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
				t.Errorf("%s with %d keys left: %v; want that it is unavailable", name, left, err)
			}
			if now := dumps(t, slot, from, to); !maps.Equal(before, now) {
				t.Fatalf("%s with %d keys left has written:\nbefore %q\nafter  %q", name, left, before, now)
			}
		}
	})
	if steps < 2 {
		t.Errorf("the slot was moved in %d steps", steps)
	}
	result, err = s.Commit(t.Context(), b)
	if err != nil || result.Turns[0].Verdict != store.Committed || result.Commands[0].Outcome != store.Applied {
		t.Errorf("after the move: %+v, %v", result, err)
	}
	cluster.Agree(t)
}

// dumps returns the keys of a hash slot on servers, with their values.
func dumps(t *testing.T, slot int, of ...*servers.Redis) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, r := range of {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.Addr()}, ForceSingleClient: true,
			DisableCache: true})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		command := client.B().ClusterGetkeysinslot().Slot(int64(slot)).Count(1000).Build()
		keys, err := client.Do(t.Context(), command).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if key == "{stet:0}g" {
				continue // a witness is noted when it is made again, beside the acts
			}
			results := client.DoMulti(t.Context(), client.B().Asking().Build(), client.B().Dump().Key(key).Build())
			text, err := results[1].ToString()
			if err != nil {
				t.Fatal(err)
			}
			all[r.Addr()+" "+key] = text
		}
	}
	return all
}

// Every script finds out first whether all keys are there.
func TestEveryScriptBeginsWithTheGuard(t *testing.T) {
	guard := redis.Guard()
	if !strings.Contains(guard, "redis.pcall('EXISTS', KEYS[1], ") || strings.Contains(guard, "local call") {
		t.Errorf("the guard is %q", guard)
	}
	scripts := redis.Scripts()
	if len(scripts) < 20 {
		t.Errorf("%d scripts", len(scripts))
	}
	for name, body := range scripts {
		if !strings.HasPrefix(body, guard) {
			t.Errorf("%s begins with %q", name, body[:min(len(body), 200)])
		}
	}
}

// Hash slots move between masters, and back, while nodes execute runs that send to each other: no acknowledged start is
// lost, every run ends, no body is executed twice, and every move ends.
func TestReshardUnderLoad(t *testing.T) {
	soak.Faults(t)
	cluster := servers.NewRedisCluster(t, servers.Forgetful...)
	open := func() *redis.Store { return openAt(t, cluster.URL(), redis.Slots(5)) }
	s := open()
	l := newLoad(t, 2, open)
	l.begin(4)
	masters := cluster.Masters()
	moves := 0
	for round := range soak.Cases(t, 6) {
		for part := range 5 {
			slot := cluster.SlotOf(t, fmt.Sprintf("{stet:%d}n", part))
			from := cluster.Owner(t, slot)
			to := masters[(slices.Index(masters, from)+1)%len(masters)]
			begun := l.starts.Load()
			cluster.MoveSlot(t, slot, to, func(int) { moves++ })
			servers.Until(t, "starts go on", func() bool { return l.starts.Load() > begun })
		}
		if err := cluster.Reshard(t, masters[round%3], masters[(round+1)%3], 100); err != nil {
			t.Error(err)
		}
	}
	l.end()
	l.once()
	cluster.Agree(t)
	healthy(t, s)
	t.Logf("%d steps of moves", moves)
}

// TestLoadWhileMastersAreNotReached: nodes execute runs that send to each other, and do not reach one master, then
// another. No acknowledged start is lost, every run ends, and no body is executed twice.
func TestLoadWhileMastersAreNotReached(t *testing.T) {
	t.Parallel()
	g := newGround(t, refused)
	open := func() *redis.Store { return g.open(t, redis.Slots(5)) }
	s := open()
	l := newLoad(t, 2, open)
	l.begin(2)
	goOn := func() {
		begun := l.starts.Load()
		servers.Until(t, "starts go on", func() bool { return l.starts.Load() > begun })
	}
	for _, master := range g.masters {
		goOn()
		comeBack := g.takeAway(t, master)
		patiently(t, func() error { // until an act has met it
			if _, err := s.List(t.Context(), store.Filter{Limit: 1}); !away(err) {
				return fmt.Errorf("%w: the master answers: %v", store.ErrUnavailable, err)
			}
			return nil
		})
		comeBack()
		goOn()
	}
	l.end()
	l.once()
	healthy(t, s)
}

// healthy checks the invariants of a store.
func healthy(t *testing.T, s *redis.Store) {
	t.Helper()
	var findings []redis.Finding
	patiently(t, func() (err error) { // a busy server does not answer in time
		findings, err = s.Doctor(t.Context())
		return err
	})
	for _, f := range findings[1:] { // the first is about the settings
		if !f.OK {
			t.Errorf("%s: %s", f.What, f.Detail)
		}
	}
}
