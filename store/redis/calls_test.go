package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// calls returns how often scripts have called each command since it was asked last.
func calls(t *testing.T, server *servers.Redis) map[string]int {
	t.Helper()
	text, err := ask(t, server.Addr(), "info", "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t, server.Addr(), "config", "resetstat"); err != nil {
		t.Fatal(err)
	}
	list := map[string]int{}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		var n int
		if _, err := fmt.Sscanf(rest, "calls=%d,", &n); err == nil {
			list[name] = n
		}
	}
	for _, name := range []string{"evalsha", "eval", "info", "config|resetstat", "publish", "time", "hello",
		"ping"} {
		delete(list, name)
	}
	return list
}

func sum(list map[string]int) (n int) {
	for _, k := range list {
		n += k
	}
	return n
}

// A step costs the server one call, and a start and an end two or three; what they have in
// common, as leases, indexes and counts, is one call for all of a batch. A claim under a
// fence reads no leases.
func TestCallsOfABatch(t *testing.T) {
	t.Parallel()
	const n = 100
	server := servers.NewRedis(t, servers.Durable...)
	s := openAt(t, server.URL())
	var shards []store.Shard
	for slot := range 256 {
		shards = append(shards, store.Shard{Group: store.DefaultGroup, Slot: slot})
	}
	leases := acquire(t, s, shards...)
	claim := func() {
		t.Helper()
		claims, err := s.Claim(t.Context(),
			store.ClaimRequest{Node: node.ID, Boot: node.Boot, Leases: leases, Workflows: []string{"w"}, Limit: 10})
		if err != nil || len(claims.Runs)+len(claims.Fenced) > 0 {
			t.Fatalf("claimed %+v: %v", claims, err)
		}
	}
	claim()
	b := store.Batch{Node: node.ID, Boot: node.Boot, No: 1, Leases: leases}
	for i := range n {
		c := start(fmt.Sprint("run ", i))
		c.Start.Shard.Slot = redis.SlotOf(s, c.Start.ID)
		b.Commands = append(b.Commands, c)
	}
	expect := func(what string, most int) store.BatchResult {
		t.Helper()
		calls(t, server)
		result, err := s.Commit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		for _, turn := range result.Turns {
			if turn.Verdict != store.Committed {
				t.Fatalf("%s: %s: %s", what, turn.Verdict, turn.Reason)
			}
		}
		if found := calls(t, server); sum(found) > most || sum(found) < n {
			t.Errorf("%s: expected %d to %d calls, found %d: %v", what, n, most, sum(found), found)
		}
		b.No++
		b.Turns, b.Commands = nil, nil
		return result
	}
	runs := expect("starts", n+12).Commands
	turn := func(loc string, u *store.Update) {
		for _, a := range runs {
			b.Turns = append(b.Turns, &store.Turn{
				Run: a.Run.No, Shard: a.Run.Shard, Update: u,
				Entries: []store.Entry{{Loc: loc, Kind: store.KindStep, State: store.Done, Value: []byte(loc)}},
			})
		}
	}
	turn("a", &store.Update{Status: store.Running, Build: "b"})
	expect("first turns", 3*n+8)
	turn("b", nil)
	expect("steps", n+6)
	turn("c", &store.Update{Status: store.Succeeded, Build: "b", Output: []byte("o")})
	expect("ends", 3*n+12)
	calls(t, server)
	claim()
	if found := calls(t, server); found["hmget"] > 0 || sum(found) > 8 {
		t.Errorf("a claim that finds nothing: %v", found)
	}
}

// The known leases of a boot are forgotten when another node takes one of them: a step of
// the shard that was taken is fenced, others of the same batch are not, and the claim of
// the old owner reports the shard.
func TestFenceFallsWithALease(t *testing.T) {
	t.Parallel()
	url, prefix := servers.SharedRedis(t)
	now := time.Unix(1_700_000_000, 0)
	clock := redis.Clock(func() time.Time { return now })
	s, other := openAt(t, url, redis.Prefix(prefix), clock), openAt(t, url, redis.Prefix(prefix), clock)
	var shards []store.Shard
	for slot := range 4 {
		shards = append(shards, store.Shard{Group: store.DefaultGroup, Slot: slot})
	}
	leases := acquire(t, s, shards...)
	b := store.Batch{Node: node.ID, Boot: node.Boot, No: 1, Leases: leases}
	for slot := range shards {
		c := start(fmt.Sprint("run ", slot))
		c.Start.Shard.Slot = slot
		b.Commands = append(b.Commands, c)
	}
	result, err := s.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	step := func(loc string) (verdicts []store.Verdict) {
		t.Helper()
		b.No++
		b.Commands, b.Turns = nil, nil
		for _, a := range result.Commands {
			b.Turns = append(b.Turns, &store.Turn{
				Run: a.Run.No, Shard: a.Run.Shard, Entries: []store.Entry{{Loc: loc, Kind: store.KindStep, State: store.Done}},
			})
		}
		result, err := s.Commit(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		for _, turn := range result.Turns {
			verdicts = append(verdicts, turn.Verdict)
		}
		return verdicts
	}
	for _, v := range step("a") {
		if v != store.Committed {
			t.Fatalf("with its leases: %s", v)
		}
	}
	now = now.Add(time.Minute)
	taken, _, err := other.Acquire(t.Context(), store.Node{ID: "m", Boot: "m-1"}, shards[2:3], ttl)
	if err != nil || !taken[0].Held {
		t.Fatalf("taking a lease that is over: %+v: %v", taken, err)
	}
	for slot, v := range step("b") {
		if expected := map[bool]store.Verdict{true: store.Fenced, false: store.Committed}[slot == 2]; v != expected {
			t.Errorf("slot %d: expected %s, found %s", slot, expected, v)
		}
	}
	claims, err := s.Claim(t.Context(),
		store.ClaimRequest{Node: node.ID, Boot: node.Boot, Leases: leases, Workflows: []string{"w"}, Limit: 10})
	if err != nil || len(claims.Fenced) != 1 || claims.Fenced[0] != shards[2] || len(claims.Runs) > 0 {
		t.Errorf("a claim of the former owner: %+v: %v", claims, err)
	}
	if err := other.Release(t.Context(), []store.Lease{taken[0].Lease}); err != nil {
		t.Fatal(err)
	}
	if v := step("c")[2]; v != store.Fenced {
		t.Errorf("after the other has given it back: %s", v)
	}
}
