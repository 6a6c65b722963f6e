package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// open opens a store, which may lose what a server without fsync loses, and which is closed when the test ends.
// On a busy machine a server may take longer for a connection than a store waits: then open tries again.
func open(t testing.TB, dsn string, opts ...postgres.Option) *postgres.Store {
	t.Helper()
	opts = append([]postgres.Option{postgres.AllowLoss()}, opts...)
	s, err := postgres.Open(t.Context(), dsn, opts...)
	for range 10 {
		if !errors.Is(err, store.ErrUnavailable) {
			break
		}
		t.Log(err)
		s, err = postgres.Open(t.Context(), dsn, opts...)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var shard = store.Shard{Group: store.DefaultGroup, Slot: 7}

func start(id string) store.Command {
	return store.Command{Start: &store.Start{ID: id, Shard: shard, Workflow: "w",
		Seed: store.Seed([]byte("0123456789abcdef")), Input: []byte("in")}}
}

// claimedStart returns a start whose run the batch claims.
func claimedStart(id string) store.Command {
	c := start(id)
	c.Claim = true
	return c
}

func message(run, id string) store.Command {
	return store.Command{RunID: run, Item: &store.Item{Kind: store.ItemMessage, Name: "word", ID: id, Origin: "test",
		Value: []byte("hello")}}
}

func done(loc string) store.Entry {
	return store.Entry{Loc: loc, Kind: store.KindStep, State: store.Done, Seq: 1, At: 5, Attempt: 1, Started: 3,
		Ended: 4, Value: []byte("v")}
}

// node owns the shard.
type node struct {
	s      *postgres.Store
	node   store.Node
	leases []store.Lease
	no     int64
}

// ttl is how long the leases of tests last: longer than these.
const ttl = store.Delay(3600_000_000)

// takeAll registers a node that takes the shard.
func takeAll(t testing.TB, s *postgres.Store, id string) *node {
	t.Helper()
	n := &node{s: s, node: store.Node{ID: id, Boot: id + "-1", Workflows: []string{"w"}}}
	if _, err := s.Register(t.Context(), n.node); err != nil {
		t.Fatal(err)
	}
	n.acquire(t)
	s.Warmed()
	return n
}

// acquire takes the shard.
func (n *node) acquire(t testing.TB) {
	t.Helper()
	got, _, err := n.s.Acquire(t.Context(), n.node, []store.Shard{shard}, ttl)
	if err != nil || !got[0].Held {
		t.Fatalf("acquire: %v, %+v", err, got)
	}
	n.leases = []store.Lease{got[0].Lease}
}

// batch returns the next batch.
func (n *node) batch(turns []*store.Turn, commands ...store.Command) store.Batch {
	n.no++
	return store.Batch{Node: n.node.ID, Boot: n.node.Boot, No: n.no, Leases: n.leases, Turns: turns, Commands: commands}
}

func (n *node) commit(t testing.TB, turns ...*store.Turn) store.BatchResult {
	t.Helper()
	batch := n.batch(turns)
	result, err := n.s.Commit(t.Context(), batch)
	for errors.Is(err, store.ErrUnknown) { // a starved process may exceed the server's bound on an idle transaction
		result, err = n.s.Commit(t.Context(), batch)
	}
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// started starts a run that the node has claimed.
func (n *node) started(t testing.TB, id string) store.Run {
	t.Helper()
	result, err := n.s.Commit(t.Context(), n.batch(nil, claimedStart(id)))
	if err != nil || !result.Commands[0].Claimed {
		t.Fatalf("start %s: %v, %+v", id, err, result)
	}
	return result.Commands[0].Run
}

// listen waits until a handle listens; the channel is closed when it then hears of
// a change.
func listen(t testing.TB, s *postgres.Store) <-chan struct{} {
	t.Helper()
	if _, err := s.Changed(t.Context()); err != nil { // of the beginning
		t.Fatal(err)
	}
	heard := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		if _, err := s.Changed(ctx); err == nil {
			close(heard)
		}
	}()
	return heard
}
