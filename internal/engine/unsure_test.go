package engine

import (
	"testing"

	"github.com/stet-run/stet/store"
)

// A batch is over when all its leases are, also that of a turn whose shard was taken after
// the batch's hand was looked at.
func TestBatchOfALaterShardIsOver(t *testing.T) {
	first, later := store.Shard{Group: "g", Slot: 1}, store.Shard{Group: "g", Slot: 2}
	of := map[store.Shard]*holding{first: {lease: store.Lease{Shard: first}}}
	h := &holding{lease: store.Lease{Shard: later}}
	b := &batch{hand: newHand(of), turns: []pendingTurn{{h: h}}}
	b.contents.Leases = []store.Lease{of[first].lease, h.lease}
	if b.over() {
		t.Error("over, though both leases are held")
	}
	of[first].dropped.Store(true)
	if b.over() {
		t.Error("over, though the turn's lease is held")
	}
	h.dropped.Store(true)
	if !b.over() {
		t.Error("not over, though no lease is held")
	}
}
