package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stet-run/stet/store"
)

// BenchmarkAppend commits turns with items of one stream; one operation is one
// item.
func BenchmarkAppend(b *testing.B) {
	value := []byte(strings.Repeat("v", 100))
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprintf("items=%d", size), func(b *testing.B) {
			s, run, batches := one(b)
			b.ResetTimer()
			for i := 0; i < b.N; i += size {
				turn := &store.Turn{Run: run, Shard: testShard}
				for range size {
					turn.Appends = append(turn.Appends, store.Append{Name: "log", Value: value})
				}
				batches.commit(b, s, turn)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
		})
	}
}

// BenchmarkReadStream reads a long stream; one operation is one item.
func BenchmarkReadStream(b *testing.B) {
	s, run, batches := one(b)
	const items = 50_000
	value := []byte(strings.Repeat("v", 100))
	for range items / 1000 {
		turn := &store.Turn{Run: run, Shard: testShard}
		for range 1000 {
			turn.Appends = append(turn.Appends, store.Append{Name: "log", Value: value})
		}
		batches.commit(b, s, turn)
	}
	b.ResetTimer()
	for i := 0; i < b.N; {
		for after := int64(0); ; {
			got, err := s.Stream(b.Context(), store.StreamQuery{Run: run, Name: "log", After: after, Limit: 1000})
			if err != nil {
				b.Fatal(err)
			}
			if len(got) == 0 {
				break
			}
			i += len(got)
			after = got[len(got)-1].Pos
		}
	}
}
