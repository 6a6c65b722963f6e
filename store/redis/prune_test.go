package redis_test

import (
	"fmt"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// TestCallsOfPruning: entries of single locations are pruned by one call for all of them,
// and without a look at those that stay. An entity does so in each of its turns.
func TestCallsOfPruning(t *testing.T) {
	t.Parallel()
	const stay, gone = 3000, 400
	server := servers.NewRedis(t, servers.Durable...)
	s := openAt(t, server.URL())
	c := start("r")
	slot := redis.SlotOf(s, "r")
	c.Start.Shard.Slot = slot
	leases := acquire(t, s, c.Start.Shard)
	c.Claim = true
	batch := store.Batch{Node: node.ID, Boot: node.Boot, No: 1, Leases: leases, Commands: []store.Command{c}}
	commit := func() store.BatchResult {
		t.Helper()
		result, err := s.Commit(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		batch.No, batch.Commands = batch.No+1, nil
		return result
	}
	run := commit().Commands[0].Run.No
	turn := &store.Turn{Run: run, Shard: c.Start.Shard}
	for i := range stay + gone {
		turn.Entries = append(turn.Entries, store.Entry{
			Loc: fmt.Sprintf("l%05d", i), Kind: store.KindEntity, State: store.Open, Value: []byte("v"), Size: 1,
		})
	}
	batch.Turns = []*store.Turn{turn}
	if v := commit().Turns[0].Verdict; v != store.Committed {
		t.Fatalf("the first turn is %s", v)
	}
	turn = &store.Turn{Run: run, Shard: c.Start.Shard}
	for i := range gone {
		loc := fmt.Sprintf("l%05d", i*5)
		turn.Prune = append(turn.Prune, store.Span{From: loc, To: loc + "\x00"})
	}
	batch.Turns = []*store.Turn{turn}
	calls(t, server)
	if v := commit().Turns[0].Verdict; v != store.Committed {
		t.Fatalf("the pruning turn is %s", v)
	}
	made := calls(t, server)
	if n := sum(made); n > 20 || made["hkeys"] > 0 {
		t.Errorf("%d entries of %d are pruned by %d calls: %v", gone, stay+gone, n, made)
	}
	left, err := s.History(t.Context(), store.HistoryQuery{Run: run})
	if err != nil || len(left) != stay {
		t.Errorf("%d entries are left, %v; want %d", len(left), err, stay)
	}
}
