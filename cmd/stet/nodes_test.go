package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/api"
	"github.com/stet-run/stet/store"
)

// What a run waits for that no living process has, and what the processes do.
func TestClusterOfSeveralNodes(t *testing.T) {
	now := store.TimeOf(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	shard := store.Shard{Group: "default", Slot: 3}
	lease := func(node string, until time.Duration) store.Lease {
		return store.Lease{Shard: shard, Node: node, Boot: "1", Until: now.Add(until)}
	}
	node := func(id, build string, seen time.Duration, groups ...string) store.Node {
		return store.Node{ID: id, Boot: "1", Build: build, Workflows: []string{"w"}, Groups: groups, SeenAt: now.Add(seen)}
	}
	c := cluster{NodesInfo: stet.NodesInfo{Description: store.Description{Slots: 16, Now: now, Nodes: []store.Node{
		node("a", "1", -time.Second, "default"), node("b", "3", -time.Hour, "default"), node("c", "2", -time.Second, "other"),
	}, Leases: []store.Lease{lease("a", time.Second)}}}}
	run := func(workflow, group, build string, status store.Status) *stet.RunInfo {
		return &stet.RunInfo{Workflow: workflow, Shard: store.Shard{Group: group}, Build: build, Status: status}
	}
	for _, row := range []struct {
		run  *stet.RunInfo
		want string // part of it; "": it lacks nothing
	}{
		{run("w", "default", "", store.Queued), ""},
		{run("w", "default", "1", store.Running), ""},
		{run("w", "default", "2", store.Running), "waits for a process of build 2, which has worked on it, or a later one"},
		{run("w", "default", "2", store.Succeeded), ""},
		{run("w", "other", "2", store.Running), ""},
		{run("w", "third", "", store.Queued), "no process with the workflow w works for the group third"},
		{run("x", "default", "", store.Queued), "no process with the workflow x works on this store"},
	} {
		if got := c.lacks(row.run); !strings.HasPrefix(got, row.want) || (got == "") != (row.want == "") {
			t.Errorf("%+v: %q; want %q", row.run, got, row.want)
		}
	}
	one := c
	one.Slots = 1
	if got := one.lacks(run("w", "third", "2", store.Running)); got != "" {
		t.Errorf("where one process executes everything: %q", got)
	}
	drained := node("d", "1", -time.Second, "default")
	drained.Draining = true
	c.Nodes = append(c.Nodes, drained)
	for i, want := range []string{"working", "silent", "standing by", "drained"} {
		if got := api.NodeState(&c.NodesInfo, &c.Nodes[i]); got != want {
			t.Errorf("node %s is %s; want %s", c.Nodes[i].ID, got, want)
		}
	}
	// A node is silent from the end of its leases on, taken by others or not.
	c.Nodes = append(c.Nodes, node("e", "1", -4*time.Second), node("f", "1", -time.Second))
	c.Nodes[4].TTL, c.Nodes[5].TTL = store.Delay(3e6), store.Delay(3e6)
	c.Leases[0].Node = "g" // a lease of no listed node
	c.Leases = append(c.Leases, store.Lease{
		Shard: store.Shard{Group: "default", Slot: 4}, Node: "f", Boot: "1", Until: now - 1,
	})
	for i, want := range map[int]string{4: "silent", 5: "silent"} {
		if got := api.NodeState(&c.NodesInfo, &c.Nodes[i]); got != want {
			t.Errorf("node %s is %s; want %s", c.Nodes[i].ID, got, want)
		}
	}
	// It is lost once its shards are taken, or it is gone, until it is heard of again.
	c.Leases[len(c.Leases)-1].Node, c.Leases[len(c.Leases)-1].Until = "a", now+1_000_000
	c.Nodes[0].Lost = []store.Loss{{Node: "f", Boot: "1", SeenAt: c.Nodes[5].SeenAt}}
	c.Nodes[4].Gone = true
	for i, want := range map[int]string{0: "working", 4: "lost", 5: "lost"} {
		got := api.NodeState(&c.NodesInfo, &c.Nodes[i])
		shown := (&api.Nodes{Nodes: api.NodesOf(&c.NodesInfo), Now: c.Now.Time(), Slots: c.Slots}).Info()
		if again := api.NodesOf(shown)[i].State; got != want || i > 0 && again != want {
			t.Errorf("node %s is %s, and %s for a client of the server; want %s", c.Nodes[i].ID, got, again, want)
		}
	}
	c.Nodes[5].SeenAt++
	if got := api.NodeState(&c.NodesInfo, &c.Nodes[5]); got != "standing by" {
		t.Errorf("a lost node that is heard of again is %s", got)
	}
	bad := func() (n int) {
		for _, f := range c.findings() {
			if !f.OK {
				n++
			}
		}
		return n
	}
	c.Nodes[0].Zones, c.Nodes[1].Zones, c.Nodes[2].Zones = "one", "silent", "one"
	if n := bad(); n > 0 || len(c.zones()) != 1 {
		t.Errorf("of equal processes the doctor has %d bad findings: %+v", n, c.findings())
	}
	c.Nodes[2].Zones, c.Nodes[0].Lacks = "two", []string{"stet.schedule/s: no such zone"}
	if n := bad(); n != 2 || len(c.zones()) != 2 {
		t.Errorf("of processes with different zones, of which one lacks something, the doctor has %d bad findings: %+v", n,
			c.findings())
	}
	c.Leases = append(c.Leases, lease("d", time.Second))
	if got := api.NodesOf(&c.NodesInfo)[3]; got.State != "draining" || got.Shards != 1 {
		t.Errorf("a node that has yet to give a shard back: %+v", got)
	}
}
