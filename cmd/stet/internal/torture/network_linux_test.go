package torture_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/cmd/stet/internal/torture"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
)

// workerLease is how long a worker's lease lasts: long enough to be renewed by a node that
// shares two cores with all other tests, whose every statement may take a tenth of a second.
const workerLease = 4 * time.Second

// TestNodesAreCutOff puts each node into a network of its own, which is never linked with those of the others. Each in
// turn is cut off from the store, in both directions, in one, or again and again. The others own its shards within its
// lease and a second. When the link is back, nothing is stuck and nothing is broken.
func TestNodesAreCutOff(t *testing.T) {
	soak.Faults(t)
	if testing.Short() {
		t.Skip("not in -short: it takes a minute")
	}
	const nodes = 3
	networks := make([]*servers.Network, nodes)
	for i := range networks {
		networks[i] = servers.NewNetwork(t)
	}
	server := servers.NewPostgres(t)
	cfg := configOf(t, server.DSN())
	urls := make([]string, nodes)
	for i, n := range networks {
		urls[i] = server.TCP(servers.NewProxyAt(t, n.Host, server.Addr()).Addr())
	}
	outside := cfg.Worker
	cfg.Worker = func(orders string) *exec.Cmd {
		place := placeOf(t, orders)
		c := networks[place].Enter(outside(orders))
		c.Env = append(c.Env, "STET_TORTURE_DB="+urls[place])
		return c
	}
	db, err := cfg.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &cuts{db: db, networks: networks, took: map[string]time.Duration{}}
	cfg.Nodes, cfg.For, cfg.Strikes, cfg.Lease = nodes, 3*seconds(t), 1, workerLease
	// This is neither about the time that takes, nor about runs that kill their process.
	cfg.Patience, cfg.NoPoison = 2*time.Minute, true
	cfg.Outages = []torture.Outage{{Name: "networks cut", Do: c.all}}
	report := tortured(t, cfg)
	if !report.OK {
		t.Errorf("seed %d: there are violations", report.Seed)
	}
	for _, how := range []string{"cut off", "mute", "deaf"} {
		took, done := c.took[how]
		if !done {
			t.Errorf("no node was %s", how)
		}
		t.Logf("%s: the others owned all after %v at most", how, took)
		// Under the load of other tests the survivors are late themselves.
		if limit := workerLease + time.Second; took > 2*limit {
			t.Errorf("%s: the others owned all after %v; want %v", how, took, limit)
		}
	}
	if report.Counts["runs: succeeded"] == 0 {
		t.Error("no run has succeeded")
	}
}

// placeOf returns the place of the worker that is given orders, which is in its name.
func placeOf(t *testing.T, orders string) int {
	var o struct{ Name string }
	if err := json.Unmarshal([]byte(orders), &o); err != nil {
		t.Error(err)
	}
	name, _, _ := strings.Cut(o.Name, ".")
	return int(name[len(name)-1] - '0')
}

// cuts cuts nodes off and measures the time until the others own every shard.
type cuts struct {
	db       store.Store
	networks []*servers.Network
	took     map[string]time.Duration // by how
}

// all cuts off one node after the other, each in another way.
func (c *cuts) all(ctx context.Context) error {
	for place, cut := range []struct {
		how string
		set func(*servers.Network, bool) error
	}{{"cut off", (*servers.Network).Cut}, {"mute", (*servers.Network).Mute}, {"deaf", (*servers.Network).Deafen}} {
		took, err := c.cut(ctx, place, cut.set)
		if err != nil {
			return err
		}
		c.took[cut.how] = took
	}
	return c.flap(ctx)
}

// cut cuts one node off until the others own everything. It returns how long that took.
func (c *cuts) cut(ctx context.Context, place int, set func(*servers.Network, bool) error) (took time.Duration,
	err error) {
	ctx, done := context.WithTimeout(ctx, 20*workerLease)
	defer done()
	for owned := 0; owned == 0; { // until it is back from before
		if owned, err = c.left(ctx, place); err != nil {
			return 0, fmt.Errorf("node %d owns nothing that it could lose: %w", place, err)
		}
	}
	if err := set(c.networks[place], true); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, set(c.networks[place], false)) }()
	begun := time.Now()
	for left := 1; left > 0 && took < 10*workerLease; took = time.Since(begun) {
		if left, err = c.left(ctx, place); err != nil {
			return 0, err
		}
	}
	return took, nil
}

// flap cuts a node off and joins it again, several times, for less than its lease.
func (c *cuts) flap(ctx context.Context) error {
	n := c.networks[0]
	for range 5 {
		for _, on := range []bool{true, false} {
			if err := n.Cut(on); err != nil {
				return err
			}
			if err := rest(ctx, rand.N(400*time.Millisecond)); err != nil {
				return err
			}
		}
	}
	return nil
}

// rest waits for a time, or for the end of the context.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// left returns, after a moment, how many shards no node owns but the one at a place.
func (c *cuts) left(ctx context.Context, place int) (n int, err error) {
	if err := rest(ctx, 10*time.Millisecond); err != nil {
		return 0, err
	}
	about, err := c.db.Describe(ctx)
	if err != nil {
		return 0, err
	}
	for _, l := range about.Leases {
		if name, _, _ := strings.Cut(l.Node, "."); strings.HasSuffix(name, fmt.Sprint(place)) || l.Until <= about.Now {
			n++
		}
	}
	return n, nil
}
