package redis_test

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/redis"
)

// BenchmarkSweep deletes ended runs of ten steps, as a pass that hurries, and says what it took to write them.
func BenchmarkSweep(b *testing.B) {
	server := servers.NewRedis(b, servers.Durable...)
	var ahead atomic.Int64
	s, err := redis.Open(b.Context(), server.URL(), redis.Slots(1), redis.Logger(slog.New(slog.DiscardHandler)),
		redis.Clock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }() // the server ends with the test
	shard := store.Shard{Group: store.DefaultGroup}
	n := store.Node{ID: "n", Boot: "n-1", Workflows: []string{"w"}}
	if _, err := s.Register(b.Context(), n); err != nil {
		b.Fatal(err)
	}
	got, _, err := s.Acquire(b.Context(), n, []store.Shard{shard}, anHour*1000)
	if err != nil || !got[0].Held {
		b.Fatalf("%+v, %v", got, err)
	}
	leases := []store.Lease{got[0].Lease}
	const runs, together = 1000, 50
	batch := store.Batch{Node: n.ID, Boot: n.Boot, Leases: leases}
	commit := func() store.BatchResult {
		batch.No++
		result, err := s.Commit(b.Context(), batch)
		if err != nil {
			b.Fatal(err)
		}
		batch.Commands, batch.Turns = nil, nil
		return result
	}
	req := store.SweepRequest{Leases: leases, Most: 2000,
		Rules: []store.Retention{{Workflow: "w", Status: store.Succeeded}}}
	var writing time.Duration
	written := 0
	for b.Loop() {
		b.StopTimer()
		begun := time.Now()
		for range runs / together {
			for range together {
				c := start(fmt.Sprint("run-", written))
				c.Start.Shard = shard
				batch.Commands = append(batch.Commands, c)
				written++
			}
			started := commit()
			for i := range started.Commands {
				turn := &store.Turn{Run: started.Commands[i].Run.No, Shard: shard,
					Update: &store.Update{Status: store.Succeeded, Output: []byte("o")}}
				for k := range 10 {
					turn.Entries = append(turn.Entries, store.Entry{Loc: fmt.Sprint("step-", k), Kind: store.KindStep,
						State: store.Done, Seq: int64(k + 1), At: 5, Attempt: 1, Started: 3, Ended: 4,
						Value: make([]byte, 100), Size: 100})
				}
				batch.Turns = append(batch.Turns, turn)
			}
			commit()
		}
		writing += time.Since(begun)
		ahead.Add(int64(2 * time.Minute))
		b.StartTimer()
		req.From = store.SweepPlace{}
		for gone, done := 0, false; !done || gone < runs; {
			swept, err := s.Sweep(b.Context(), req)
			if err != nil || done && swept.Runs == 0 {
				b.Fatalf("%d runs were deleted: %v", gone, err)
			}
			gone, done, req.From = gone+swept.Runs, swept.Done, swept.Next
		}
	}
	b.ReportMetric(float64(b.N*runs)/b.Elapsed().Seconds(), "runs/s")
	b.ReportMetric(float64(written)/writing.Seconds(), "written/s")
}
