package store_test

import (
	"testing"

	"github.com/stet-run/stet/store"
)

// TestShardSet: a set has what was added, and of what was not only what it says that it
// does not tell apart.
func TestShardSet(t *testing.T) {
	var s store.ShardSet
	s.Add(store.Shard{Group: "a", Slot: 7})
	for _, row := range []struct {
		shard store.Shard
		has   bool
	}{
		{store.Shard{Group: "a", Slot: 7}, true},
		{store.Shard{Group: "b", Slot: 7}, true},
		{store.Shard{Group: "a", Slot: 263}, true},
		{store.Shard{Group: "a", Slot: 8}, false},
		{store.Shard{Group: "a", Slot: 15}, false},
		{store.Shard{Group: store.SystemGroup, Slot: 7}, false},
	} {
		if s.Has(row.shard) != row.has {
			t.Errorf("%+v: expected %t", row.shard, row.has)
		}
	}
}
