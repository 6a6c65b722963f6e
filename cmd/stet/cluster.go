package main

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// cluster describes the nodes of a store in words.
type cluster struct{ stet.NodesInfo }

// lacks returns what is lacking to execute a run, or "" if a living node can.
func (c *cluster) lacks(r *stet.RunInfo) string {
	if err := c.Unserved(r); err != nil {
		return err.Error()
	}
	return ""
}

// owner describes the node that may write for the shard.
func (c *cluster) owner(shard store.Shard) string {
	lease, node := c.Owner(shard)
	if lease == nil {
		return "nobody works on this store"
	}
	text := lease.Node
	if node != nil {
		text = fmt.Sprintf("%s (process %d on %s, build %s)", lease.Node, node.PID, node.Host, node.Build)
	}
	if lease.Until < c.Now {
		return fmt.Sprintf("%s, whose lease ended at %s", text, moment(lease.Until))
	}
	return text
}

// silent returns that the node is silent that executes a run, or "" if it lives.
func (c *cluster) silent(r *stet.RunInfo) string {
	_, node := c.Owner(r.Shard)
	if node == nil || r.Status != store.Running || c.Alive(node) {
		return ""
	}
	return fmt.Sprintf("its process was last heard of %s ago (node %s, process %d on %s)",
		duration(c.Now.Sub(node.SeenAt)), node.ID, node.PID, node.Host)
}

// clusterOf reads the nodes of the store.
func clusterOf(ctx context.Context, s store.Store) (*cluster, error) {
	d, err := s.Describe(ctx)
	return &cluster{stet.NodesInfo{Description: d}}, err
}
