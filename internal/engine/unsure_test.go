package engine

import (
	"testing"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// A batch is over when all its leases are, also that of a turn whose shard was taken after
// the batch's hand was looked at.
func TestBatchOfALaterShardIsOver(t *testing.T) {
	first, later := store.Shard{Group: "g", Slot: 1}, store.Shard{Group: "g", Slot: 2}
	var set ownership.Set
	set.Take(t.Context(), []store.Lease{{Shard: first}})
	in := set.Now()
	set.Take(t.Context(), []store.Lease{{Shard: later}})
	h := set.Now().Of(later)
	b := &batch{shards: in, turns: []pendingTurn{{h: h}}}
	b.contents.Leases = []store.Lease{in.Of(first).Lease(), h.Lease()}
	if b.over() {
		t.Error("over, though both leases are held")
	}
	set.Lose(in.Of(first))
	if b.over() {
		t.Error("over, though the turn's lease is held")
	}
	set.Lose(h)
	if !b.over() {
		t.Error("not over, though no lease is held")
	}
}
