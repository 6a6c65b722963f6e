package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stet-run/stet/store"
)

// fleetOf returns nodes with the workflow w and a build.
func fleetOf(build string, names ...string) []*store.Node {
	var nodes []*store.Node
	for _, name := range names {
		nodes = append(nodes, &store.Node{
			ID: name, Boot: name + "1", Build: build, Workflows: []string{"w"}, Groups: []string{"g"},
		})
	}
	return nodes
}

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("node-%02d", i)
	}
	return list
}

// holders returns who holds what after an assignment was carried out.
func holders(owners []string) map[int]string {
	held := map[int]string{}
	for slot, owner := range owners {
		if owner != "" {
			held[slot] = owner
		}
	}
	return held
}

func counts(owners []string) map[string]int {
	n := map[string]int{}
	for _, owner := range owners {
		n[owner]++
	}
	return n
}

// moved returns how many slots have another owner.
func moved(before, after []string) (n int) {
	for i := range before {
		if before[i] != after[i] {
			n++
		}
	}
	return n
}

// checkBalance checks that no node has more than one shard more than another, which
// is within 20 % of the mean where each has five at least.
func checkBalance(t *testing.T, owners []string, nodes []*store.Node) {
	t.Helper()
	n := counts(owners)
	least, most := len(owners), 0
	for _, node := range nodes {
		least, most = min(least, n[node.ID]), max(most, n[node.ID])
	}
	if most-least > 1 || n[""] > 0 {
		t.Errorf("%d nodes have from %d to %d shards of %d; %d have no owner", len(nodes), least, most, len(owners), n[""])
	}
	mean := float64(len(owners)) / float64(len(nodes))
	if mean >= 5 && (float64(most) > 1.2*mean || float64(least) < 0.8*mean) {
		t.Errorf("%d nodes have from %d to %d shards, which is not within 20 %% of %.1f", len(nodes), least, most, mean)
	}
}

// A hundred nodes share the shards evenly. One that leaves moves its own alone, and
// one that joins moves those alone that it gets; each node comes to the same result.
func TestAssignmentOfAHundredNodes(t *testing.T) {
	for _, slots := range []int{256, 1024, 4096} {
		nodes := fleetOf("b", names(100)...)
		g := Group{Name: "g", Slots: slots, Nodes: nodes}
		owners := Assign(g, 0)
		checkBalance(t, owners, nodes)
		random := rand.New(rand.NewPCG(1, uint64(slots)))
		shuffled := g
		shuffled.Nodes = slices.Clone(nodes)
		random.Shuffle(len(nodes), func(i, j int) {
			shuffled.Nodes[i], shuffled.Nodes[j] = shuffled.Nodes[j], shuffled.Nodes[i]
		})
		if again := Assign(shuffled, 0); !slices.Equal(again, owners) {
			t.Errorf("with %d slots the order of the nodes matters", slots)
		}
		for range 20 {
			gone := random.IntN(len(g.Nodes))
			leaver := g.Nodes[gone].ID
			own := counts(owners)[leaver]
			g.Nodes, g.Held = slices.Delete(slices.Clone(g.Nodes), gone, gone+1), holders(owners)
			after := Assign(g, 0)
			checkBalance(t, after, g.Nodes)
			if n := moved(owners, after); n != own {
				t.Errorf("with %d slots %s leaves, which has %d, and %d move", slots, leaver, own, n)
			}
			if i := slices.Index(after, leaver); i >= 0 {
				t.Errorf("slot %d is assigned to a node that has left", i)
			}
			joiner := leaver + "-new"
			g.Nodes, g.Held = append(g.Nodes, fleetOf("b", joiner)...), holders(after)
			owners = Assign(g, 0)
			checkBalance(t, owners, g.Nodes)
			if n, got := moved(after, owners), counts(owners)[joiner]; n != got || got == 0 {
				t.Errorf("with %d slots %s joins, which gets %d, and %d move", slots, joiner, got, n)
			}
			stays := Assign(Group{Name: "g", Slots: slots, Nodes: g.Nodes, Held: holders(owners)}, 0)
			if !slices.Equal(stays, owners) {
				t.Errorf("with %d slots the result does not stay", slots)
			}
		}
	}
}

// Nodes without workflows own nothing while another has some.
func TestNodesWithoutWorkflows(t *testing.T) {
	nodes := fleetOf("b", "a", "b", "c")
	nodes[0].Workflows, nodes[2].Workflows = nil, nil
	owners := Assign(Group{Name: "g", Slots: 8, Nodes: nodes, Held: map[int]string{3: "a"}}, 0)
	if n := counts(owners); n["b"] != 8 {
		t.Errorf("got %v; want all with b", n)
	}
	owners = Assign(Group{Name: "g", Slots: 8, Nodes: []*store.Node{nodes[0], nodes[2]}}, 0)
	if n := counts(owners); n["a"] != 4 || n["c"] != 4 {
		t.Errorf("got %v; want them shared by those that are there", n)
	}
	if owners := Assign(Group{Name: "g", Slots: 2}, 0); !slices.Equal(owners, []string{"", ""}) {
		t.Errorf("without nodes the owners are %q", owners)
	}
}

func TestAssignmentCountsBuildsBeforeHashes(t *testing.T) {
	need := func(slot int, workflow, build string, until store.Time) store.Requirement {
		return store.Requirement{Shard: store.Shard{Group: "g", Slot: slot}, Workflow: workflow, Build: build, Until: until}
	}
	nodes := slices.Concat(fleetOf("1", "a", "b"), fleetOf("2", "c"))
	g := Group{Name: "g", Slots: 9, Nodes: nodes}
	owners := Assign(g, 0)
	checkBalance(t, owners, nodes)
	g.Held = holders(owners)
	i := slices.Index(owners, "a")

	g.Needs = []store.Requirement{need(i, "w", "2", 10)}
	after := Assign(g, 5)
	if after[i] != "c" {
		t.Errorf("a shard with a run of build 2 is assigned to %s, which has build 1", after[i])
	}
	checkBalance(t, after, nodes)
	if n := moved(owners, after); n != 2 { // that one, and one in its place
		t.Errorf("%d shards move", n)
	}
	if again := Assign(g, 10); !slices.Equal(again, owners) {
		t.Error("a need that is over moves a shard")
	}
	g.Needs = []store.Requirement{need(i, "w", "3", 10), need(i, "x", "", 10)}
	if again := Assign(g, 5); !slices.Equal(again, owners) {
		t.Error("a need that nobody meets moves a shard")
	}

	g.Needs = nil
	for slot := range 9 {
		g.Needs = append(g.Needs, need(slot, "w", "2", 10))
	}
	if n := counts(Assign(g, 5)); n["c"] != 9 {
		t.Errorf("all shards have runs of build 2, and the nodes have %v", n)
	}
	g.Nodes = append(g.Nodes, fleetOf("3", "d")...)
	g.Nodes = append(g.Nodes, fleetOf(Unknown, "e")...)
	if n := counts(Assign(g, 5)); n["c"] != 3 || n["d"] != 3 || n["e"] != 3 {
		t.Errorf("with three nodes that meet the needs they have %v", n)
	}
}

// If no node meets all needs of a shard, each need has its turn.
func TestNeedsTakeTurns(t *testing.T) {
	nodes := slices.Concat(fleetOf("1", "old"), fleetOf("2", "new"))
	nodes[0].Workflows = []string{"w", "gone"}
	shard := store.Shard{Group: "g"}
	g := Group{Name: "g", Slots: 1, Nodes: nodes, Needs: []store.Requirement{
		{Shard: shard, Workflow: "gone", Until: 1 << 40}, {Shard: shard, Workflow: "w", Build: "2", Until: 1 << 40},
	}}
	seen := map[string]int{}
	for i := range 10 {
		owner := Assign(g, store.Time(i)*turnOfNeeds)[0]
		g.Held = map[int]string{0: owner}
		seen[owner]++
	}
	if !maps.Equal(seen, map[string]int{"old": 5, "new": 5}) {
		t.Errorf("in ten turns the owners were %v", seen)
	}
}

// BenchmarkAssign is what a look costs a node of a hundred.
func BenchmarkAssign(b *testing.B) {
	g := Group{Name: "g", Slots: 256, Nodes: fleetOf("b", names(100)...)}
	g.Held = holders(Assign(g, 0))
	for b.Loop() {
		Assign(g, 0)
	}
}
