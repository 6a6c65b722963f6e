package redis_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// TestLoadOfLongHistories: a script answers with some of the runs, so that it keeps the server busy
// for a bounded time; the next one goes on behind them.
func TestLoadOfLongHistories(t *testing.T) {
	server := servers.NewRedis(t, servers.Forgetful...)
	s := openAt(t, server.URL(), redis.Slots(1))
	leases := acquire(t, s, shard)
	b := store.Batch{Node: node.ID, Boot: node.Boot, No: 1, Leases: leases}
	const runs, entries = 12, 300
	for i := range runs {
		b.Commands = append(b.Commands, start(fmt.Sprint("run-", i)))
	}
	result, err := s.Commit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	var nos []store.RunNo
	value := []byte(strings.Repeat("v", 1000))
	for i, answer := range result.Commands {
		nos = append(nos, answer.Run.No)
		turn := &store.Turn{Run: answer.Run.No, Shard: shard}
		for k := range entries + i {
			turn.Entries = append(turn.Entries,
				store.Entry{Loc: fmt.Sprintf("e%04d", k), Kind: store.KindStep, State: store.Done, Value: value})
		}
		if _, err := s.Commit(t.Context(), store.Batch{Node: node.ID, Boot: node.Boot, No: int64(i + 2), Leases: leases,
			Turns: []*store.Turn{turn}}); err != nil {
			t.Fatal(err)
		}
	}
	scripts := func() (n int) {
		text, err := server.Command("info", "commandstats")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			_, _ = fmt.Sscanf(line, "cmdstat_evalsha:calls=%d,", &n)
		}
		return n
	}
	before := scripts()
	nos = append(nos, 1<<40) // which is none
	snapshots, left, err := s.Load(t.Context(), nos)
	if err != nil || len(snapshots) != runs || len(left) != 0 {
		t.Fatalf("loaded %d of %d runs, %d are left: %v", len(snapshots), runs, len(left), err)
	}
	for i, snap := range snapshots {
		if snap.Run.No != nos[i] || len(snap.Entries) != entries+i || len(snap.Entries[0].Value) != len(value) {
			t.Errorf("run %d has number %d and %d entries", i, snap.Run.No, len(snap.Entries))
		}
	}
	if n := scripts() - before; n < 3 || n > runs {
		t.Errorf("about 4 MB were loaded with %d scripts; want several, with some runs each", n)
	}
}
