package cluster

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"

	"github.com/stet-run/stet/store"
)

// lost is a life of a node whose shards were taken although it has not given them back.
type lost struct{ node, boot string }

// logLost logs each life of a node from which shards were taken that it had not given back,
// by the leases of before, and returns them.
func logLost(log *slog.Logger, own string, before *store.Description, taken []store.Acquired) (all []store.Loss) {
	shards := map[lost]int{}
	for i := range taken {
		a := &taken[i]
		if !a.Held || a.Clean {
			continue
		}
		l := slices.IndexFunc(before.Leases, func(l store.Lease) bool { return l.Shard == a.Lease.Shard })
		if l < 0 {
			continue
		}
		if former := (lost{before.Leases[l].Node, before.Leases[l].Boot}); former.node != "" && former.boot != a.Lease.Boot {
			shards[former]++
		}
	}
	order := func(a, b lost) int { return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.boot, b.boot)) }
	for _, former := range slices.SortedFunc(maps.Keys(shards), order) {
		loss := store.Loss{Node: former.node, Boot: former.boot}
		about := []any{"node", own, "lost", former.node, "shards", shards[former]}
		if i := slices.IndexFunc(before.Nodes, func(n store.Node) bool {
			return n.ID == former.node && n.Boot == former.boot
		}); i >= 0 {
			n := &before.Nodes[i]
			loss.SeenAt = n.SeenAt
			about = append(about, "process", n.PID, "host", n.Host, "heard_of", n.SeenAt.Time())
		}
		log.Warn("a node was lost; its shards were taken", about...)
		all = append(all, loss)
	}
	return all
}

// losses are the lives that a node has found to be over.
type losses []store.Loss

// add adds some, in place of others of the same node.
func (l *losses) add(more []store.Loss) {
	for _, loss := range more {
		*l = slices.DeleteFunc(*l, func(former store.Loss) bool { return former.Node == loss.Node })
		*l = append(*l, loss)
	}
	*l = (*l)[max(0, len(*l)-store.MaxLost):]
}

// keep forgets nodes that are no longer listed, and nodes that were heard of since.
func (l *losses) keep(nodes []store.Node) {
	*l = slices.DeleteFunc(*l, func(loss store.Loss) bool {
		return !slices.ContainsFunc(nodes, func(n store.Node) bool {
			return n.ID == loss.Node && n.Boot == loss.Boot && n.SeenAt <= loss.SeenAt
		})
	})
}
