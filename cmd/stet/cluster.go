package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// cluster describes the nodes of a store in words.
type cluster struct {
	stet.NodesInfo
	executing map[string]string // by the ID of a running run: the step that has executed for longest
	absolute  bool              // texts name times, and not how long ago they were
}

// since says when something began.
func (c *cluster) since(at time.Time) string {
	if c.absolute {
		return at.UTC().Format(time.RFC3339)
	}
	return duration(c.Now.Time().Sub(at))
}

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

// longAfter is how long a body executes until it is marked.
const longAfter = 30 * time.Second

// body says what a node executes for a run; "": it has not said so.
func (c *cluster) body(runID string) string {
	for i := range c.Nodes {
		n := &c.Nodes[i]
		for _, b := range n.Bodies {
			if b.RunID == runID && c.Alive(n) {
				return fmt.Sprintf("executing step %s since %s on %s%s", b.Location, c.since(b.Since.Time()), n.ID,
					c.mark(b.Since.Time()))
			}
		}
	}
	return ""
}

// mark marks what executes for long.
func (c *cluster) mark(since time.Time) string {
	if c.Now.Time().Sub(since) < longAfter {
		return ""
	}
	return " (for long)"
}

// executor returns the node that executes a run, or "" if none does that lives.
func (c *cluster) executor(r *stet.RunInfo) string {
	_, node := c.Owner(r.Shard)
	if node == nil || r.Status != store.Running || !c.Alive(node) {
		return ""
	}
	return node.ID
}

// silent returns that the node is silent that executes a run, or "" if it lives.
func (c *cluster) silent(r *stet.RunInfo) string {
	_, node := c.Owner(r.Shard)
	if node == nil || r.Status != store.Running || c.Alive(node) {
		return ""
	}
	return fmt.Sprintf("its process is silent since %s (node %s, process %d on %s)",
		c.since(node.SeenAt.Time()), node.ID, node.PID, node.Host)
}

// clusterOf reads the nodes of the store.
func clusterOf(ctx context.Context, s store.Store) (*cluster, error) {
	d, err := s.Describe(ctx)
	return &cluster{NodesInfo: stet.NodesInfo{Description: d}}, err
}
