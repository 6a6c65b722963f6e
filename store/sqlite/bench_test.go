package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storetest"
)

// BenchmarkCommit commits turns of one entry each in batches; one operation is
// one entry.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("rows=%d", size), func(b *testing.B) {
			s, err := Open(context.Background(), filepath.Join(b.TempDir(), "x.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			ctx := context.Background()
			node := store.Node{ID: "n", Boot: "b"}
			shard := store.Shard{Group: store.DefaultGroup}
			held, _, err := s.Acquire(ctx, node, []store.Shard{shard}, 1e9)
			if err != nil {
				b.Fatal(err)
			}
			batch := store.Batch{Node: "n", Boot: "b", Leases: []store.Lease{held[0].Lease}}
			for i := range size {
				batch.Commands = append(batch.Commands, store.Command{Claim: true, Start: &store.Start{
					ID: fmt.Sprint("r", i), Shard: shard, Workflow: "w", Seed: store.Seed{byte(i), byte(i >> 8)}}})
			}
			batch.No = 1
			started, err := s.Commit(ctx, batch)
			if err != nil {
				b.Fatal(err)
			}
			batch.Commands = nil
			value := []byte(strings.Repeat("v", 100))
			b.ResetTimer()
			for i := 0; i < b.N; i += size {
				batch.No++
				batch.Turns = batch.Turns[:0]
				for k := range size {
					batch.Turns = append(batch.Turns, &store.Turn{Run: started.Commands[k].Run.No, Shard: shard,
						Entries: []store.Entry{{
							Loc: fmt.Sprintf("\x02step-%08d\x00\x01\x01", i), Kind: store.KindStep, State: store.Done, Seq: int64(i + 1),
							Value: value,
						}}})
				}
				if _, err := s.Commit(ctx, batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkLoad loads a run of many entries; one operation is one entry.
func BenchmarkLoad(b *testing.B) {
	s, run, batches := one(b)
	const entries = 100_000
	value := []byte(strings.Repeat("v", 100))
	for seq := int64(0); seq < entries; {
		turn := &store.Turn{Run: run, Shard: testShard}
		for range 1000 {
			seq++
			turn.Entries = append(turn.Entries, doneEntry(seq, value))
		}
		batches.commit(b, s, turn)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += entries {
		if _, _, err := s.Load(b.Context(), []store.RunNo{run}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart starts runs one by one and in groups; one operation is one run.
func BenchmarkStart(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprintf("runs=%d", size), func(b *testing.B) {
			s := open(b, testPath(b))
			var commands []store.Command
			b.ResetTimer()
			for i := 0; i < b.N; i += size {
				commands = commands[:0]
				for k := range size {
					commands = append(commands, start(fmt.Sprint("run-", i+k)))
				}
				if _, _, err := s.Apply(b.Context(), commands); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLists asks for the lists and counts of the dashboard in a store of two sizes.
func BenchmarkLists(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "x.db"), AllowLoss())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	node := store.Node{ID: "n", Boot: "b"}
	held, _, err := s.Acquire(b.Context(), node, []store.Shard{{Group: store.DefaultGroup}}, 1e12)
	if err != nil {
		b.Fatal(err)
	}
	l := storetest.Listing{Store: s, Node: node, Lease: held[0].Lease}
	l.Bench(b)
}
