package postgres_test

import (
	"fmt"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// BenchmarkCommit writes batches of so many turns with a completed step each, of runs
// in as many slots, on a server that waits for no disk.
func BenchmarkCommit(b *testing.B) {
	for _, turns := range []int{1, 12, 40, 100, 1000} {
		b.Run(fmt.Sprintf("turns=%d", turns), func(b *testing.B) {
			dsn, schema := servers.SharedPostgres(b)
			s := open(b, dsn, postgres.Schema(schema), postgres.AllowLoss())
			n := &node{s: s, node: store.Node{ID: "n", Boot: "n-1", Workflows: []string{"w"}}}
			if _, err := s.Register(b.Context(), n.node); err != nil {
				b.Fatal(err)
			}
			shards := make([]store.Shard, 256)
			for i := range shards {
				shards[i] = store.Shard{Group: store.DefaultGroup, Slot: i}
			}
			got, _, err := s.Acquire(b.Context(), n.node, shards, ttl)
			if err != nil {
				b.Fatal(err)
			}
			for _, a := range got {
				n.leases = append(n.leases, a.Lease)
			}
			starts := make([]store.Command, turns)
			for i := range starts {
				starts[i] = claimedStart(fmt.Sprint("r", i))
				starts[i].Start.Shard.Slot = i % len(shards)
			}
			result, err := s.Commit(b.Context(), n.batch(nil, starts...))
			if err != nil {
				b.Fatal(err)
			}
			value := make([]byte, 100)
			list := make([]*store.Turn, turns)
			for i := range list {
				r := &result.Commands[i].Run
				list[i] = &store.Turn{Run: r.No, Shard: r.Shard, Insert: true, Entries: []store.Entry{done("")}}
				list[i].Entries[0].Value = value
			}
			for b.Loop() {
				for _, t := range list {
					t.Entries[0].Loc = fmt.Sprintf("step-%08d", n.no)
				}
				n.commit(b, list...)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*turns), "µs/turn")
		})
	}
}
