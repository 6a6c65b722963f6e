package redis_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storetest"
)

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
