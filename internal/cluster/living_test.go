package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
)

// TestLiving: which nodes count. A silent one is judged by the length of its own leases,
// and by the member's if it has not said it.
func TestLiving(t *testing.T) {
	const second = store.Time(time.Second / time.Microsecond)
	now := 100 * second
	node := func(id string, silent store.Time, ttl time.Duration) store.Node {
		return store.Node{ID: id, Boot: id + "-1", SeenAt: now - silent, TTL: delay(ttl)}
	}
	draining := node("draining", 0, time.Minute)
	draining.Draining = true
	gone, back := node("gone", 0, 30*time.Second), node("gone, and heard of since", 0, 30*time.Second)
	gone.Gone, back.Gone = true, true
	d := store.Description{
		Now: now,
		Nodes: []store.Node{
			node("own", 50*second, 30*time.Second),
			node("short, heard of", 2*second, 3*time.Second),
			node("short, silent", 3*second, 3*time.Second),
			node("long, heard of", 29*second, 30*time.Second),
			node("long, silent", 30*second, 30*time.Second),
			node("unknown, heard of", 9*second, 0),
			node("unknown, silent", 10*second, 0),
			node("a lease has ended", 0, 30*time.Second),
			node("its lease stands", 0, 30*time.Second),
			draining, gone, back,
		},
		Leases: []store.Lease{
			{Shard: store.Shard{Group: "g", Slot: 1}, Node: "a lease has ended", Boot: "a lease has ended-1", Until: now},
			{Shard: store.Shard{Group: "g", Slot: 2}, Node: "its lease stands", Boot: "its lease stands-1", Until: now + 1},
			{Shard: store.Shard{Group: "g", Slot: 3}, Node: "its lease stands", Boot: "a former one", Until: now - 1},
		},
	}
	m := &Member{Node: store.Node{ID: "own", Boot: "own-1"}, TTL: 10 * time.Second}
	names := func() (names []string) {
		for _, n := range m.living(&d) {
			names = append(names, n.ID)
		}
		return names
	}
	want := []string{"own", "short, heard of", "long, heard of", "unknown, heard of", "its lease stands"}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("expected %q, found %q", want, got)
	}
	// That they are gone is not known at the next look, because the process cannot see it. One is heard of.
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Gone = false; n.ID == back.ID {
			n.SeenAt++
		}
	}
	want = append(want, back.ID)
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("at the next look: expected %q, found %q", want, got)
	}
	m.stopping = true
	if got := names(); !slices.Equal(got, want[1:]) {
		t.Errorf("while it stops: expected %q, found %q", want[1:], got)
	}
}
