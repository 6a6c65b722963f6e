package redis_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storetest"
)

// TestClaimedRunsAreFoundAlone: after a claim without an answer a node lists what is claimed in its shards, and the
// server does as much for that beside ten times as many runs.
func TestClaimedRunsAreFoundAlone(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	s := openAt(t, server.URL())
	l := storetest.Listing{Store: s, Node: node, Lease: acquire(t, s, store.Shard{Group: store.DefaultGroup})[0]}
	l.Check(t, 200, 1800, []storetest.Question{storetest.Retaken()}, func(ask func()) int {
		calls(t, server)
		ask()
		return sum(calls(t, server))
	})
}

// TestClaimDoesNotReadWhatRests: a claim costs the server as many calls beside ten times as
// much that no node may take up. Of what the node cannot load it reads the first ones.
func TestClaimDoesNotReadWhatRests(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.Durable...)
	s := openAt(t, server.URL())
	leases := acquire(t, s, store.Shard{Group: store.DefaultGroup})
	b := storetest.Backlog{Store: s, Node: node, Leases: leases}
	b.Check(t, 5, 400, func(claim func()) int {
		calls(t, server)
		claim()
		return sum(calls(t, server))
	})
}
