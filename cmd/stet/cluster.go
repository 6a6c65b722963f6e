package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

// cluster describes the nodes of a store in words.
type cluster struct {
	stet.NodesInfo
	absolute bool // texts name times, and not how long ago they were
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

// zones returns the digests of the data of time zones that living nodes have, each with its nodes.
func (c *cluster) zones() []string {
	of := map[string][]string{}
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Zones != "" && c.Alive(n) {
			of[n.Zones] = append(of[n.Zones], n.ID)
		}
	}
	var digests []string
	for _, digest := range slices.Sorted(maps.Keys(of)) {
		digests = append(digests, digest+" on "+strings.Join(of[digest], ", "))
	}
	return digests
}

// findings are those of a doctor about the processes that live.
func (c *cluster) findings() []finding {
	digests, lacks := c.zones(), []string{}
	for i := range c.Nodes {
		if n := &c.Nodes[i]; c.Alive(n) {
			for _, lack := range n.Lacks {
				lacks = append(lacks, n.ID+": "+lack)
			}
		}
	}
	same := "0 exceptions"
	if len(digests) > 1 {
		same = "give all the same system image: " + strings.Join(digests, "; ")
	}
	needed := fmt.Sprintf("%d exceptions", len(lacks))
	if len(lacks) > 0 {
		needed += ": " + strings.Join(lacks, "; ")
	}
	return []finding{
		{"processes have the same data of time zones", len(digests) < 2, same},
		{"processes have what records need", len(lacks) == 0, needed},
	}
}

// clusterOf reads the nodes of the store.
func clusterOf(ctx context.Context, s store.Store) (*cluster, error) {
	d, err := s.Describe(ctx)
	return &cluster{NodesInfo: stet.NodesInfo{Description: d}}, err
}
