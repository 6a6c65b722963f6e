package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/cluster"
	"github.com/stet-run/stet/store"
)

// heardWithin is how long ago a node may have been heard of to count as alive:
// some heartbeats of an engine with the default lease.
const heardWithin = 45 * time.Second

// place is what is known of who works on the store.
type place struct{ store.Description }

// alive reports whether the node holds a lease, or was heard of lately.
func (p place) alive(n *store.Node) bool {
	if p.Now.Sub(n.SeenAt) <= heardWithin {
		return true
	}
	return slices.ContainsFunc(p.Leases, func(l store.Lease) bool {
		return l.Node == n.ID && l.Boot == n.Boot && l.Until >= p.Now
	})
}

// serves reports whether a living node has the workflow.
func (p place) serves(workflow string) bool {
	return slices.ContainsFunc(p.Nodes, func(n store.Node) bool {
		return p.alive(&n) && slices.Contains(n.Workflows, workflow)
	})
}

// unserved says that none has.
func (place) unserved(workflow string) string {
	return fmt.Sprintf("no process with the workflow %s works on this store", workflow)
}

// lacks says for which process a run waits: one that has its workflow and, where
// several work on a store, is of its group and not of an earlier build than the one
// that has worked on it. "": such a one lives.
func (p place) lacks(r *stet.RunInfo) string {
	if r.Status.Terminal() || store.IsEntity(r.Workflow) {
		return ""
	}
	has := func(fits func(*store.Node) bool) bool {
		return slices.ContainsFunc(p.Nodes, func(n store.Node) bool {
			return p.alive(&n) && slices.Contains(n.Workflows, r.Workflow) && fits(&n)
		})
	}
	several := p.Slots > 1
	grouped := func(n *store.Node) bool { return !several || slices.Contains(n.Groups, r.Shard.Group) }
	late := func(n *store.Node) bool { return !several || n.Build == cluster.Unknown || n.Build >= r.Build }
	switch {
	case !has(func(*store.Node) bool { return true }):
		return p.unserved(r.Workflow)
	case !has(grouped):
		return fmt.Sprintf("no process with the workflow %s works for the group %s", r.Workflow, r.Shard.Group)
	case !has(func(n *store.Node) bool { return grouped(n) && late(n) }):
		return fmt.Sprintf("waits for a process of build %s, which has worked on it, or a later one: those that work on this store are earlier", r.Build)
	}
	return ""
}

// owner says who may write for the shard.
func (p place) owner(shard store.Shard) string {
	i := slices.IndexFunc(p.Leases, func(l store.Lease) bool { return l.Shard == shard })
	if i < 0 {
		return "nobody works on this store"
	}
	l := p.Leases[i]
	text := l.Node
	if n := slices.IndexFunc(p.Nodes, func(n store.Node) bool { return n.ID == l.Node }); n >= 0 {
		text = fmt.Sprintf("%s (process %d on %s, build %s)", l.Node, p.Nodes[n].PID, p.Nodes[n].Host, p.Nodes[n].Build)
	}
	if l.Until < p.Now {
		return fmt.Sprintf("%s, whose lease ended at %s", text, moment(l.Until))
	}
	return text
}
