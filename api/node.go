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
	State     string    `json:"state" words:"NodeState"` // working, standing by, draining, drained, silent or lost
	Build     string    `json:"build"`
	Groups    []string  `json:"groups,omitempty"`
	Shards    int       `json:"shards"`
	Workflows []string  `json:"workflows"`
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Seen      time.Time `json:"seen"`
	Boot      string    `json:"boot"` // another one for each life of the process
	LeaseMS   int64     `json:"lease_ms,omitempty"`
	Draining  bool      `json:"draining,omitempty"`
	Bodies    []Body    `json:"bodies,omitempty"` // that execute there for over 10 s, the oldest first, up to 100
	// Zones is a digest of the process's data of time zones: where two nodes differ, they may plan schedules differently.
	Zones string `json:"zones,omitempty"`
	// Lacks says what the process lacks to execute some records of the store, by run ID, up to 20.
	Lacks []string `json:"lacks,omitempty"`
}

// Body is an execution of a step's body.
type Body struct {
	Run      string    `json:"run"`
	Workflow string    `json:"workflow"`
	Location string    `json:"location"` // of the step
	Attempt  int       `json:"attempt"`  // from 1
	Since    time.Time `json:"since"`
	Long     bool      `json:"long,omitempty"` // for over 30 s
}

// longAfter is how long a body executes until it is marked.
const longAfter = 30 * time.Second

// Lease is a node's right to write for the runs of a shard.
type Lease struct {
	Group string    `json:"group"`
	Slot  int       `json:"slot"`
	Node  string    `json:"node"`
	Boot  string    `json:"boot"`
	Until time.Time `json:"until"`
}

// LeasesOf returns the forms of the leases, by shard.
func LeasesOf(d *stet.NodesInfo) []Lease {
	leases := make([]Lease, len(d.Leases))
	for i := range d.Leases {
		l := &d.Leases[i]
		leases[i] = Lease{l.Shard.Group, l.Shard.Slot, l.Node, l.Boot, l.Until.Time()}
	}
	return leases
}

// NodesOf returns the forms of the nodes, by name.
func NodesOf(d *stet.NodesInfo) []Node {
	nodes := make([]Node, len(d.Nodes))
	for i := range d.Nodes {
		n := &d.Nodes[i]
		nodes[i] = Node{
			Node: n.ID, State: NodeState(d, n), Build: n.Build, Groups: n.Groups,
			Workflows: append([]string{}, n.Workflows...),
			Host:      n.Host, PID: n.PID, Seen: n.SeenAt.Time(),
			Boot: n.Boot, LeaseMS: (time.Duration(n.TTL) * time.Microsecond).Milliseconds(), Draining: n.Draining,
			Zones: n.Zones, Lacks: n.Lacks,
		}
		slices.Sort(nodes[i].Workflows)
		for _, b := range n.Bodies {
			nodes[i].Bodies = append(nodes[i].Bodies, Body{
				b.RunID, b.Workflow, b.Location, b.Attempt, b.Since.Time(), d.Now.Sub(b.Since) >= longAfter,
			})
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

// NodeState says in words what a node is doing. A silent one was not heard of for as long as its leases last, and may
// come back. A lost one is dead, as far as the others know: they have taken its shards.
func NodeState(d *stet.NodesInfo, n *store.Node) string {
	working := slices.ContainsFunc(d.Leases, func(l store.Lease) bool { return holds(d, n, &l) })
	switch {
	case d.Lost(n):
		return nodeLost
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

// nodeLost is the state of a node whose death is known.
const nodeLost = "lost"

// Nodes are the processes that work on the store, by name.
type Nodes struct {
	Nodes []Node    `json:"nodes"`
	Now   time.Time `json:"now"` // by the store's clock
	Slots int       `json:"slots"`
	// Leases are who owns which shard, if they were asked for.
	Leases []Lease `json:"leases,omitempty"`
}

// Info returns what the forms say of the nodes and, if they are there, of the leases.
func (n *Nodes) Info() *stet.NodesInfo {
	d := store.Description{Slots: n.Slots, Now: store.TimeOf(n.Now)}
	for i := range n.Nodes {
		x := &n.Nodes[i]
		node := store.Node{
			ID: x.Node, Boot: x.Boot, Build: x.Build, Host: x.Host, PID: x.PID, Workflows: x.Workflows, Groups: x.Groups,
			TTL: store.Delay(x.LeaseMS * 1000), Draining: x.Draining, SeenAt: store.TimeOf(x.Seen),
			Gone: x.State == nodeLost, Zones: x.Zones, Lacks: x.Lacks,
		}
		for _, b := range x.Bodies {
			node.Bodies = append(node.Bodies, store.Body{
				RunID: b.Run, Workflow: b.Workflow, Location: b.Location, Attempt: b.Attempt, Since: store.TimeOf(b.Since),
			})
		}
		d.Nodes = append(d.Nodes, node)
	}
	for _, l := range n.Leases {
		d.Leases = append(d.Leases, store.Lease{
			Shard: store.Shard{Group: l.Group, Slot: l.Slot}, Node: l.Node, Boot: l.Boot, Until: store.TimeOf(l.Until),
		})
	}
	return &stet.NodesInfo{Description: d}
}
