package main

import (
	"context"
	"fmt"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// cluster is how the nodes of the store stand, in words.
type cluster struct{ stet.NodesInfo }

// lacks says for which process a run waits; "": one lives that can execute it.
func (c *cluster) lacks(r *stet.RunInfo) string {
	if err := c.Unserved(r); err != nil {
		return err.Error()
	}
	return ""
}

// owner says which node may write for the shard.
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

// clusterOf reads how the nodes of the store stand.
func clusterOf(ctx context.Context, s store.Store) (*cluster, error) {
	d, err := s.Describe(ctx)
	return &cluster{stet.NodesInfo{Description: d}}, err
}
