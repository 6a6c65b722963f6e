package redis_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
	"github.com/stet-run/stet/store/storetest"
)

// BenchmarkClaimBesideBacklog claims beside nothing, and beside much that no node may take up.
func BenchmarkClaimBesideBacklog(b *testing.B) {
	server := servers.NewRedis(b, servers.Durable...)
	s, leases := benchStore(b, server)
	backlog := storetest.Backlog{Store: s, Node: benchNode, Leases: leases}
	backlog.Bench(b)
}

// BenchmarkLists asks for the lists and counts of the dashboard in a store of two sizes.
func BenchmarkLists(b *testing.B) {
	server := servers.NewRedis(b, servers.Durable...)
	s, leases := benchStore(b, server)
	l := storetest.Listing{Store: s, Node: benchNode, Lease: leases[0]}
	l.Bench(b)
}

// benchNode is the node of benchmarks.
var benchNode = store.Node{ID: "n", Boot: "n-1"}

// benchStore opens a store of one slot, and takes it.
func benchStore(b *testing.B, server *servers.Redis) (*redis.Store, []store.Lease) {
	s, err := redis.Open(b.Context(), server.URL(), redis.Slots(1))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() }) // the server ends with the test
	got, _, err := s.Acquire(b.Context(), benchNode, []store.Shard{{Group: store.DefaultGroup}}, anHour*1000)
	if err != nil || !got[0].Held {
		b.Fatalf("%+v, %v", got, err)
	}
	return s, []store.Lease{got[0].Lease}
}
