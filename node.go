package stet

import (
	"context"
	"fmt"
	"slices"

	"github.com/stet-run/stet/store"
)

// Drain has a node give its shards back, to the other nodes of its groups, and take
// no more until its process is started again: bodies that run there may end within
// its Grace, what is complete is committed, and its runs go on elsewhere. The node
// goes on starting, sending and reading. Drain returns when the request is durable;
// Describe tells, by the leases, when it is carried out.
//
// ErrNotFound: no node with the ID is known. ErrRefused: the store has one owner at a
// time, which is stopped instead.
func (e *Engine) Drain(ctx context.Context, node string) error {
	d, err := e.store.Describe(ctx)
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
	_, err = e.store.Register(ctx, store.Node{ID: node, Boot: d.Nodes[i].Boot, Draining: true})
	return err
}
