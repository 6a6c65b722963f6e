package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
	"github.com/stet-run/stet/store/storetest"
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

// BenchmarkSweep deletes ended runs of ten steps with a server that is 1 ms away.
func BenchmarkSweep(b *testing.B) {
	server := servers.NewPostgres(b)
	s := open(b, server.TCP(distant(b, server.Addr(), time.Millisecond)))
	n := takeAll(b, s, "n")
	const runs = 1000
	db := application(b, server.DSN())
	req := store.SweepRequest{Leases: n.leases, Rules: []store.Retention{{Workflow: "w", Status: store.Succeeded}},
		Most: 2000} // as of a pass that hurries
	for b.Loop() {
		b.StopTimer()
		if _, err := db.Exec(b.Context(), fmt.Sprintf(`WITH r AS (
			INSERT INTO stet.runs (id, grp, slot, workflow, status, ready, seed, created, ended)
			SELECT gen_random_uuid(), '%s', %d, 'w', 4, 0, '0123456789abcdef', 1, 1 FROM generate_series(1, %d)
			RETURNING run_no)
			INSERT INTO stet.entries (run_no, seq, born, at, wake, started, ended, incarnation, attempt, generation, size,
				kind, state, owes, loc, val)
			SELECT run_no, i, 1, 1, 0, 1, 1, 0, 1, 0, 3, 1, 2, false, i::text::bytea, 'abc'
			FROM r, generate_series(1, 10) AS i`, shard.Group, shard.Slot, runs)); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		req.From = store.SweepPlace{}
		for gone, done := 0, false; !done || gone < runs; {
			got, err := s.Sweep(b.Context(), req)
			if err != nil || done && got.Runs == 0 {
				b.Fatalf("%d runs were deleted: %v", gone, err)
			}
			gone, done, req.From = gone+got.Runs, got.Done, got.Next
		}
	}
	b.ReportMetric(float64(b.N*runs)/b.Elapsed().Seconds(), "runs/s")
}

// BenchmarkLists asks for the lists and counts of the dashboard in a store of two sizes.
func BenchmarkLists(b *testing.B) {
	server := servers.NewPostgres(b)
	n := takeAll(b, open(b, server.DSN()), "n")
	l := storetest.Listing{Store: n.s, Node: n.node, Lease: n.leases[0]}
	l.Bench(b)
}

// BenchmarkChildren executes a parent of 1,500 children with a server that is 1 ms away. The node keeps its leases: all
// children are for one run, and so are their ends.
func BenchmarkChildren(b *testing.B) {
	const children = 1500
	server := servers.NewPostgres(b)
	s := open(b, server.TCP(distant(b, server.Addr(), time.Millisecond)))
	child := stet.Define("child", func(ctx stet.Context, n int) (int, error) {
		return stet.Step(ctx, "step", func(context.Context) (int, error) { return n, nil })
	})
	parent := stet.Define("parent", func(ctx stet.Context, _ int) (sum int, err error) {
		var list []*stet.RunFuture[int]
		for i := range children {
			c, err := child.Go(ctx, i)
			if err != nil {
				return 0, err
			}
			list = append(list, c)
		}
		for _, c := range list {
			n, err := c.Await(ctx)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	})
	var log lockedText
	e := serveWith(b, stet.Config{Store: s, Workflows: []stet.Definition{child, parent},
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	for b.Loop() {
		run, err := parent.Start(b.Context(), e, 0)
		if err != nil {
			b.Fatal(err)
		}
		if sum, err := run.Wait(b.Context()); err != nil || sum != children*(children-1)/2 {
			b.Fatalf("the sum is %d: %v", sum, err)
		}
	}
	b.ReportMetric(float64(b.N*children)/b.Elapsed().Seconds(), "children/s")
	if said := log.String(); strings.Contains(said, "lease") {
		b.Errorf("the node has lost leases: %s", said)
	}
}

// lockedText is text that several goroutines write.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// BenchmarkClaimBesideBacklog claims beside nothing, and beside much that no node may take up.
func BenchmarkClaimBesideBacklog(b *testing.B) {
	dsn, schema := servers.SharedPostgres(b)
	s := open(b, dsn, postgres.Schema(schema), postgres.AllowLoss())
	n := store.Node{ID: "n", Boot: "n-1", Workflows: []string{"w"}}
	if _, err := s.Register(b.Context(), n); err != nil {
		b.Fatal(err)
	}
	got, _, err := s.Acquire(b.Context(), n, []store.Shard{{Group: store.DefaultGroup}}, ttl)
	if err != nil || !got[0].Held {
		b.Fatalf("acquire: %+v, %v", got, err)
	}
	backlog := storetest.Backlog{Store: s, Node: n, Leases: []store.Lease{got[0].Lease}}
	backlog.Bench(b)
}
