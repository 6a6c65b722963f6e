package storekit

import (
	"cmp"
	"slices"

	"github.com/stet-run/stet/store"
)

// MergeDescriptions returns the description of a store from those of its servers, of which there is one
// at least: what is the same of all is that of the first. A node is one that any of them knows; if they
// know boots of one node, it is the latest that was heard of.
func MergeDescriptions(list []store.Description) store.Description {
	if len(list) == 1 {
		return list[0]
	}
	sum := list[0]
	sum.Nodes, sum.Leases, sum.Workflows = nil, nil, nil
	nodes := map[string]*store.Node{}
	for _, d := range list {
		sum.Schema, sum.Now = min(sum.Schema, d.Schema), max(sum.Now, d.Now)
		sum.Leases, sum.Workflows = append(sum.Leases, d.Leases...), append(sum.Workflows, d.Workflows...)
		for i := range d.Nodes {
			n := &d.Nodes[i]
			known := nodes[n.ID]
			if known == nil || known.Boot != n.Boot && known.SeenAt < n.SeenAt {
				nodes[n.ID] = n
				continue
			}
			if known.Boot == n.Boot {
				known.SeenAt, known.Draining = max(known.SeenAt, n.SeenAt), known.Draining || n.Draining
				known.Gone = known.Gone && n.Gone
			}
		}
	}
	for _, n := range nodes {
		sum.Nodes = append(sum.Nodes, *n)
	}
	slices.Sort(sum.Workflows)
	sum.Workflows = slices.Compact(sum.Workflows)
	slices.SortFunc(sum.Nodes, func(a, b store.Node) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(sum.Leases, func(a, b store.Lease) int {
		return cmp.Or(cmp.Compare(a.Shard.Group, b.Shard.Group), cmp.Compare(a.Shard.Slot, b.Shard.Slot))
	})
	return sum
}
