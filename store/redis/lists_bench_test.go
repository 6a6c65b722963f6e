package redis_test

import (
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
	"github.com/stet-run/stet/store/storetest"
)

// BenchmarkLists asks for the lists and counts of the dashboard in a store of two sizes.
func BenchmarkLists(b *testing.B) {
	server := servers.NewRedis(b, servers.Durable...)
	s, err := redis.Open(b.Context(), server.URL(), redis.Slots(1))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }() // the server ends with the test
	n := store.Node{ID: "n", Boot: "n-1"}
	got, _, err := s.Acquire(b.Context(), n, []store.Shard{{Group: store.DefaultGroup}}, anHour*1000)
	if err != nil || !got[0].Held {
		b.Fatalf("%+v, %v", got, err)
	}
	l := storetest.Listing{Store: s, Node: n, Lease: got[0].Lease}
	l.Bench(b)
}
