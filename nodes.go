package stet

import (
	"context"
	"fmt"
	"slices"

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

// Drain makes a node give its shards to the other nodes of its groups, and take no more
// until its process is started again. Bodies that run there may end within its Grace,
// completed operations are committed, and its runs go on elsewhere. The node goes on
// starting, sending and reading. Drain returns when the request is durable;
// Engine.Describe shows, by the leases, when it is carried out.
//
// ErrNotFound: no node with the ID is known. ErrRefused: the store has one owner at a
// time, which is stopped instead. ErrInvalid: a bad act.
func (n Nodes) Drain(ctx context.Context, node string, act Act) error {
	if err := act.check(false); err != nil {
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
		return fmt.Errorf("drain node %q: %w: one process at a time works on this store: stop it, and one that stands by takes over", node, ErrRefused)
	}
	_, err = n.engine.store.Register(ctx, store.Node{ID: node, Boot: d.Nodes[i].Boot, Draining: true})
	n.engine.logged(ctx, "drain", "node", node, act, err)
	return err
}
