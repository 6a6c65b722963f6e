package cluster

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/stet-run/stet/store"
)

// Unknown is the build of a node that does not know its own: it can load every run.
const Unknown = "(unknown)"

// Group is a group whose slots are assigned.
type Group struct {
	Name  string
	Slots int
	Has   func(slot int) bool // these are assigned; nil: all
	Nodes []*store.Node       // that live and serve the group, in any order
	Held  map[int]string      // by slot: the ID of the node among Nodes that holds the shard
	Needs []store.Requirement // of its shards
}

// turnOfNeeds is how long a shard stays with a node for the sake of one need, if no
// node meets all that it has.
const turnOfNeeds = store.Time(20 * time.Second / time.Microsecond)

// Assign returns for each slot the ID of the node that should own it, or "". All nodes
// that know the same come to the same result, by these rules:
//
//   - Nodes without workflows own nothing while another node has some.
//   - A shard with needs is for the nodes that meet them, if there are any. If none
//     meets them all, one need after the other has its turn.
//   - A node that holds a shard which is for it keeps it.
//   - A shard that nobody holds goes to the node with the fewest, of several to the
//     one with the highest hash of shard and node (rendezvous).
//   - While a node has two more than another, one of them goes there: the one with
//     the highest hash.
//
// So the numbers of shards of two nodes differ by one at most, unless needs bind them.
// When a node leaves only its own shards move, and when one joins only those that it gets.
func Assign(g Group, now store.Time) []string {
	nodes := candidates(g.Nodes)
	owners := make([]string, g.Slots)
	if len(nodes) == 0 {
		return owners
	}
	index := make(map[string]int, len(nodes))
	for i, n := range nodes {
		index[n.ID] = i
	}
	a := assignment{group: g.Name, nodes: nodes, slots: make([][]int, len(nodes)), fit: make([][]bool, g.Slots)}
	needs := map[int][]store.Requirement{}
	for _, n := range g.Needs {
		if n.Shard.Group == g.Name && n.Until > now {
			needs[n.Shard.Slot] = append(needs[n.Shard.Slot], n)
		}
	}
	for slot, list := range needs {
		if slot < g.Slots {
			a.fit[slot] = fitting(list, nodes, now+store.Time(slot)*turnOfNeeds)
		}
	}
	var free []int
	for slot := range g.Slots {
		if g.Has != nil && !g.Has(slot) {
			continue
		}
		if i, held := index[g.Held[slot]]; held && a.fits(slot, i) {
			a.slots[i] = append(a.slots[i], slot)
		} else {
			free = append(free, slot)
		}
	}
	slices.SortStableFunc(free, func(x, y int) int { // those that are for few nodes first
		return cmp.Compare(boolInt(a.fit[x] == nil), boolInt(a.fit[y] == nil))
	})
	for _, slot := range free {
		i := a.fewest(slot)
		a.slots[i] = append(a.slots[i], slot)
	}
	for a.balance() {
	}
	for i, slots := range a.slots {
		for _, slot := range slots {
			owners[slot] = nodes[i].ID
		}
	}
	return owners
}

// candidates returns the nodes that may own shards, by ID.
func candidates(nodes []*store.Node) []*store.Node {
	able := slices.DeleteFunc(slices.Clone(nodes), func(n *store.Node) bool { return len(n.Workflows) == 0 })
	if len(able) == 0 {
		able = slices.Clone(nodes)
	}
	slices.SortFunc(able, func(a, b *store.Node) int { return cmp.Compare(a.ID, b.ID) })
	return able
}

// NotOn returns what stands for the workflow in a need of a shard that another node than this one is to
// have, because the node lacks something that has no name here.
func NotOn(node string) string { return notOn + node }

const notOn = store.EntityPrefix + "not/"

// Meets reports whether the node can load runs of the workflow and build.
func Meets(n *store.Node, workflow, build string) bool {
	if node, ok := strings.CutPrefix(workflow, notOn); ok {
		return n.ID != node
	}
	return slices.Contains(n.Workflows, workflow) && (n.Build == Unknown || build <= n.Build)
}

// fitting reports, by node, whether a shard with these needs is for it; nil: for all.
func fitting(needs []store.Requirement, nodes []*store.Node, turn store.Time) []bool {
	slices.SortFunc(needs, func(a, b store.Requirement) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Build, b.Build))
	})
	needs = slices.DeleteFunc(needs, func(need store.Requirement) bool { // what nobody meets binds nobody
		return !slices.ContainsFunc(nodes, func(n *store.Node) bool { return Meets(n, need.Workflow, need.Build) })
	})
	if len(needs) == 0 {
		return nil
	}
	met := make([]int, len(nodes))
	for i, n := range nodes {
		for _, need := range needs {
			if Meets(n, need.Workflow, need.Build) {
				met[i]++
			}
		}
	}
	if slices.Max(met) < len(needs) {
		first := needs[int(turn/turnOfNeeds)%len(needs)]
		for i, n := range nodes {
			if !Meets(n, first.Workflow, first.Build) {
				met[i] = 0
			}
		}
	}
	most := slices.Max(met)
	fit := make([]bool, len(nodes))
	for i := range nodes {
		fit[i] = met[i] == most
	}
	return fit
}

// assignment assigns the slots of a group to nodes, which are named by their index.
type assignment struct {
	group string
	nodes []*store.Node
	slots [][]int  // of each node
	fit   [][]bool // by slot and node; nil: the slot is for all
}

func (a *assignment) fits(slot, node int) bool { return a.fit[slot] == nil || a.fit[slot][node] }

// fewest returns the node that a shard which nobody holds goes to.
func (a *assignment) fewest(slot int) int {
	best := -1
	for i := range a.nodes {
		if !a.fits(slot, i) {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(len(a.slots[i]), len(a.slots[best])),
			cmp.Compare(a.hash(slot, best), a.hash(slot, i))) < 0 {
			best = i
		}
	}
	return best
}

// balance moves one shard from a node to one that has at least two less. It reports false
// if there is no such pair.
func (a *assignment) balance() bool {
	order := make([]int, len(a.nodes)) // by number of shards, fewest first
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(len(a.slots[x]), len(a.slots[y])) })
	for _, to := range order {
		for _, from := range slices.Backward(order) {
			if len(a.slots[from])-len(a.slots[to]) < 2 {
				break
			}
			best := -1
			for i, slot := range a.slots[from] {
				if a.fits(slot, to) && (best < 0 || a.hash(slot, to) > a.hash(a.slots[from][best], to)) {
					best = i
				}
			}
			if best >= 0 {
				slot := a.slots[from][best]
				a.slots[from] = slices.Delete(a.slots[from], best, best+1)
				a.slots[to] = append(a.slots[to], slot)
				return true
			}
		}
	}
	return false
}

func (a *assignment) hash(slot, node int) uint64 {
	var b [64]byte
	text := append(strconv.AppendInt(append(append(b[:0], a.group...), '/'), int64(slot), 10), 0)
	return xxhash.Sum64(append(text, a.nodes[node].ID...))
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
