package stet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/store"
)

// Nodes are the processes that work on an engine's store. Safe for concurrent use.
type Nodes struct{ engine *Engine }

// Nodes returns the nodes of the store.
func (e *Engine) Nodes() Nodes { return Nodes{e} }

// List returns the nodes that have not stopped, by ID. What they own is in
// Engine.Describe.
func (n Nodes) List(ctx context.Context) ([]store.Node, error) {
	d, err := n.engine.store.Describe(ctx)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return d.Nodes, nil
}

// NodesInfo is how the nodes of a store stand at one moment: who lives, who owns what, and
// which runs nobody can execute. A node's Bodies are the steps that have been executing
// there for over 10 s, as of its last renewal of leases. It is not to be changed, and then safe for concurrent use.
type NodesInfo struct{ store.Description }

// Info returns how the nodes of the store stand.
func (n Nodes) Info(ctx context.Context) (*NodesInfo, error) {
	d, err := n.engine.store.Describe(ctx)
	if err != nil {
		return nil, fmt.Errorf("describe nodes: %w", err)
	}
	return &NodesInfo{d}, nil
}

// Owner returns the lease of a shard, and the node that holds it; nil: there is no lease,
// or the node is not known any more. The lease may have ended: see its Until.
func (i *NodesInfo) Owner(shard store.Shard) (*store.Lease, *store.Node) {
	l := slices.IndexFunc(i.Leases, func(l store.Lease) bool { return l.Shard == shard })
	if l < 0 {
		return nil, nil
	}
	n := slices.IndexFunc(i.Nodes, func(n store.Node) bool { return n.ID == i.Leases[l].Node })
	if n < 0 {
		return &i.Leases[l], nil
	}
	return &i.Leases[l], &i.Nodes[n]
}

// Unserved returns what the nodes that live lack to execute a run, an *UnservedError, or
// nil: one of them can, or the run has ended. A node can if it has the run's workflow and,
// on a store with many slots, is of the run's group and not of an earlier build than the
// one that has worked on the run; and if it has not found that it lacks something else for the run. Of the records of
// schedules, topics and queues (see store.IsEntity) only the last counts.
func (i *NodesInfo) Unserved(run *RunInfo) error {
	if run.Status.Terminal() {
		return nil
	}
	if lack := i.unread(run); lack != nil {
		return lack
	}
	if store.IsEntity(run.Workflow) {
		return nil
	}
	lack := &UnservedError{Workflow: run.Workflow}
	if !i.anyLiving(run.Workflow, func(*store.Node) bool { return true }) {
		return lack
	}
	if i.Slots == 1 {
		return nil // one process executes the runs of all groups and builds
	}
	grouped := func(n *store.Node) bool { return slices.Contains(n.Groups, run.Shard.Group) }
	lack.Group = run.Shard.Group
	if !i.anyLiving(run.Workflow, grouped) {
		return lack
	}
	lack.Build = run.Build
	if !i.anyLiving(run.Workflow, func(n *store.Node) bool {
		return grouped(n) && (n.Build == engine.UnknownBuild || n.Build >= run.Build)
	}) {
		return lack
	}
	return nil
}

// unread returns what the owner of a run lacks for it, as it says itself; nil: nothing.
func (i *NodesInfo) unread(run *RunInfo) *UnservedError {
	if run.Status != store.Running {
		return nil
	}
	_, node := i.Owner(run.Shard)
	if node == nil || !i.Alive(node) {
		return nil
	}
	for _, lack := range node.Lacks {
		if text, ok := strings.CutPrefix(lack, run.ID+": "); ok {
			return &UnservedError{Workflow: run.Workflow, Node: node.ID, Lacks: text}
		}
	}
	return nil
}

// recordLacks says of the records of schedules, topics and queues what their owners lack to read them. It reads the
// nodes once, if a record is claimed.
type recordLacks struct {
	engine *Engine
	nodes  *NodesInfo
}

// of returns what the owner of a record lacks; "": nothing.
func (l *recordLacks) of(ctx context.Context, record *store.Run) (string, error) {
	if record.Status != store.Running {
		return "", nil
	}
	if l.nodes == nil {
		nodes, err := l.engine.Nodes().Info(ctx)
		if err != nil {
			return "", err
		}
		l.nodes = nodes
	}
	lack := l.nodes.unread(&RunInfo{ID: record.ID, Workflow: record.Workflow, Shard: record.Shard, Status: record.Status})
	if lack == nil {
		return "", nil
	}
	return lack.Error(), nil
}

// UnservedWorkflow is Unserved for a workflow, where groups and builds do not matter.
func (i *NodesInfo) UnservedWorkflow(workflow string) error {
	if i.anyLiving(workflow, func(*store.Node) bool { return true }) {
		return nil
	}
	return &UnservedError{Workflow: workflow}
}

// anyLiving reports whether a node lives and executes runs that has the workflow and fits.
func (i *NodesInfo) anyLiving(workflow string, fits func(*store.Node) bool) bool {
	return slices.ContainsFunc(i.Nodes, func(n store.Node) bool {
		return i.Executes(&n) && slices.Contains(n.Workflows, workflow) && fits(&n)
	})
}

// warnOfStranger logs it if the store has one owner at a time, and that is another service: a process that has no
// workflow in common with this one. What is started here waits as long as the other one works. An earlier process of
// the same service has workflows in common, or its name, or is known to be dead.
func (cfg *Config) warnOfStranger(d *store.Description) {
	if d.Slots != 1 || len(cfg.Workflows) == 0 {
		return
	}
	for i := range d.Leases {
		l := &d.Leases[i]
		at := slices.IndexFunc(d.Nodes, func(n store.Node) bool { return n.ID == l.Node && n.Boot == l.Boot })
		if l.Until <= d.Now || at < 0 || l.Node == cfg.Node || !d.Alive(&d.Nodes[at]) || len(d.Nodes[at].Workflows) == 0 {
			continue
		}
		holder := &d.Nodes[at]
		shared := func(w Definition) bool { return slices.Contains(holder.Workflows, w.Name()) }
		if slices.ContainsFunc(cfg.Workflows, shared) {
			continue
		}
		cfg.Logger.Warn("another service executes the runs of this store, one process at a time: those of this process "+
			"wait; give each service a store of its own, or one process all workflows", "holder", holder.ID,
			"pid", holder.PID, "host", holder.Host, "workflows", holder.Workflows)
		return
	}
}

// UnservedError says that no node lives that can execute a run, and what for.
type UnservedError struct {
	Workflow string // that no node has, if Group and Build are empty
	Group    string // that no node with the workflow belongs to, if Build is empty
	Build    string // that all nodes with the workflow in the group are earlier than
	// Node is the node that owns the run and lacks for it what Lacks says, such as a key, a codec, a time zone or an error
	// type. Empty: that is not why. Otherwise Group and Build are empty.
	Node, Lacks string
}

// Error says what is lacking.
func (e *UnservedError) Error() string {
	switch {
	case e.Lacks != "":
		return fmt.Sprintf("waits for a process that has what node %s lacks: %s", e.Node, e.Lacks)
	case e.Build != "":
		return fmt.Sprintf("waits for a process of build %s, which has worked on it, or a later one: "+
			"those that work on this store are earlier", e.Build)
	case e.Group != "":
		return fmt.Sprintf("no process with the workflow %s works for the group %s", e.Workflow, e.Group)
	}
	return fmt.Sprintf("no process with the workflow %s works on this store", e.Workflow)
}

// Drain makes a node give its shards to the other nodes of its groups, and take no more
// until its process is started again. Bodies that run there may end within its Grace,
// completed operations are committed, and its runs go on elsewhere. The node goes on
// starting, sending and reading. Drain returns when the request is durable;
// Engine.Describe shows, by the leases, when it is carried out.
//
// ErrNotFound: no node with the ID is known. ErrRefused: the store has one owner at a
// time, which is stopped instead. ErrInvalid: a bad act.
func (n Nodes) Drain(ctx context.Context, node string, act Act) error {
	if err := act.check(); err != nil {
		return fmt.Errorf("drain node %q: %w", node, err)
	}
	d, err := n.engine.store.Describe(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(d.Nodes, func(n store.Node) bool { return n.ID == node })
	switch {
	case i < 0:
		return fmt.Errorf("node %q: %w", node, ErrNotFound)
	case d.Slots == 1:
		return fmt.Errorf("drain node %q: %w: one process at a time works on this store: stop it, and one that stands by "+
			"takes over", node, ErrRefused)
	}
	if err := noteFirst(ctx, n.engine, "drain", "node", node, act); err != nil {
		return fmt.Errorf("drain node %q: %w", node, err)
	}
	_, err = n.engine.store.Register(ctx, store.Node{ID: node, Boot: d.Nodes[i].Boot, Draining: true})
	n.engine.logged(ctx, "drain", "node", node, act, err)
	return err
}
