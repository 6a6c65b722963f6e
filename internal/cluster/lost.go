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
// by the leases of before.
func logLost(log *slog.Logger, own string, before *store.Description, taken []store.Acquired) {
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
		about := []any{"node", own, "lost", former.node, "shards", shards[former]}
		if i := slices.IndexFunc(before.Nodes, func(n store.Node) bool {
			return n.ID == former.node && n.Boot == former.boot
		}); i >= 0 {
			n := &before.Nodes[i]
			about = append(about, "process", n.PID, "host", n.Host, "heard_of", n.SeenAt.Time())
		}
		log.Warn("a node was lost; its shards were taken", about...)
	}
}
