package api

import (
	"cmp"
	"slices"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// Node is a process that works on the store.
type Node struct {
	Node      string    `json:"node"`
	State     string    `json:"state"` // working, standing by, draining, drained or silent
	Build     string    `json:"build"`
	Groups    []string  `json:"groups,omitempty"`
	Shards    int       `json:"shards"`
	Workflows []string  `json:"workflows"`
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Seen      time.Time `json:"seen"`
}

// NodesOf returns the forms of the nodes, by name.
func NodesOf(d *stet.NodesInfo) []Node {
	nodes := make([]Node, len(d.Nodes))
	for i := range d.Nodes {
		n := &d.Nodes[i]
		nodes[i] = Node{
			Node: n.ID, State: NodeState(d, n), Build: n.Build, Groups: n.Groups,
			Workflows: slices.Sorted(slices.Values(n.Workflows)),
			Host:      n.Host, PID: n.PID, Seen: n.SeenAt.Time(),
		}
		for j := range d.Leases {
			if holds(d, n, &d.Leases[j]) {
				nodes[i].Shards++
			}
		}
	}
	slices.SortFunc(nodes, func(x, y Node) int { return cmp.Compare(x.Node, y.Node) })
	return nodes
}

// holds reports whether a node has a lease that has not ended.
func holds(d *stet.NodesInfo, n *store.Node, l *store.Lease) bool {
	return l.Node == n.ID && l.Boot == n.Boot && l.Until > d.Now
}

// NodeState says in words what a node is doing.
func NodeState(d *stet.NodesInfo, n *store.Node) string {
	working := slices.ContainsFunc(d.Leases, func(l store.Lease) bool { return holds(d, n, &l) })
	switch {
	case !d.Alive(n):
		return "silent"
	case n.Draining && working:
		return "draining"
	case n.Draining:
		return "drained"
	case working:
		return "working"
	}
	return "standing by"
}

// Nodes are the processes that work on the store, by name.
type Nodes struct {
	Nodes []Node    `json:"nodes"`
	Now   time.Time `json:"now"` // by the store's clock
}
