package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
)

var (
	testShard = store.Shard{Group: store.DefaultGroup}
	testNode  = store.Node{ID: "node-1", Boot: "boot-1", Workflows: []string{"w"}}
	otherNode = store.Node{ID: "node-2", Boot: "boot-2", Workflows: []string{"w"}}
)

const testTTL = store.Delay(30 * time.Second / time.Microsecond)

// testPath returns the path of a file that does not exist yet.
func testPath(t testing.TB) string { return filepath.Join(t.TempDir(), "stet.db") }

// open opens a store and closes it with the test, when its invariants must hold.
func open(t testing.TB, path string, opts ...Option) *Store {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	s, err := Open(context.Background(), path, append([]Option{Logger(log)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !s.closed.Load() {
			checkInvariants(t, s)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// checkInvariants asks the doctor.
func checkInvariants(t testing.TB, s *Store) {
	t.Helper()
	findings, err := s.Doctor(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if !f.OK {
			t.Errorf("doctor: %s: %s", f.What, f.Detail)
		}
	}
}

// acquire takes the shard for a node.
func acquire(t testing.TB, s *Store, n store.Node) store.Acquired {
	t.Helper()
	got, _, err := s.Acquire(t.Context(), n, []store.Shard{testShard}, testTTL)
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

// start is the command that starts a run.
func start(id string) store.Command {
	return store.Command{Start: &store.Start{ID: id, Shard: testShard, Workflow: "w", Seed: seedOf(id)}}
}

func seedOf(id string) (seed store.Seed) {
	copy(seed[:], id)
	return seed
}

// send is the command that sends a message to a run.
func send(run, id string, value []byte) store.Command {
	return store.Command{RunID: run, Item: &store.Item{Kind: store.ItemMessage, Name: "m", ID: id, Origin: id,
		Value: value}}
}

// apply carries out commands, each of which must be applied.
func apply(t testing.TB, s *Store, commands ...store.Command) []store.Answer {
	t.Helper()
	answers, _, err := s.Apply(t.Context(), commands)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if a.Outcome != store.Applied {
			t.Fatalf("command %d: expected it applied, got outcome %d", i, a.Outcome)
		}
	}
	return answers
}

// claim claims all that is ready.
func claim(t testing.TB, s *Store, l store.Lease) store.Claims {
	t.Helper()
	claims, err := s.Claim(t.Context(), store.ClaimRequest{
		Node: l.Node, Boot: l.Boot, Leases: []store.Lease{l}, Workflows: []string{"w"}, Limit: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

// batches builds the batches of a node's boot.
type batches struct {
	lease store.Lease
	no    int64
}

func (b *batches) next(turns ...*store.Turn) store.Batch {
	b.no++
	return store.Batch{Node: b.lease.Node, Boot: b.lease.Boot, No: b.no, Leases: []store.Lease{b.lease}, Turns: turns}
}

// commit commits turns and returns their verdicts.
func (b *batches) commit(t testing.TB, s *Store, turns ...*store.Turn) []store.TurnResult {
	t.Helper()
	result, err := s.Commit(t.Context(), b.next(turns...))
	if err != nil {
		t.Fatal(err)
	}
	return result.Turns
}

// done is a turn that records one completed step.
func done(run store.RunNo, seq int64, value []byte) *store.Turn {
	return &store.Turn{Run: run, Shard: testShard, Entries: []store.Entry{doneEntry(seq, value)}}
}

func doneEntry(seq int64, value []byte) store.Entry {
	return store.Entry{Loc: fmt.Sprintf("\x02s\x00%08d", seq), Kind: store.KindStep, State: store.Done, Seq: seq,
		At: store.Time(seq), Attempt: 1, Value: value}
}

// one opens a store with one claimed run.
func one(t testing.TB, opts ...Option) (*Store, store.RunNo, *batches) {
	t.Helper()
	s := open(t, testPath(t), opts...)
	held := acquire(t, s, testNode)
	apply(t, s, start("run-1"))
	claims := claim(t, s, held.Lease)
	if len(claims.Runs) != 1 || !claims.Runs[0].New {
		t.Fatalf("expected one fresh run, got %+v", claims.Runs)
	}
	return s, claims.Runs[0].Run.No, &batches{lease: held.Lease}
}

// history returns the completed steps of a run.
func history(t testing.TB, s *Store, run store.RunNo) []store.Entry {
	t.Helper()
	entries, err := s.History(t.Context(), store.HistoryQuery{Run: run, Values: true})
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// wantErr checks the class of an error.
func wantErr(t testing.TB, err error, classes ...error) {
	t.Helper()
	for _, class := range classes {
		if !errors.Is(err, class) {
			t.Errorf("expected an error that wraps %q, got %v", class, err)
		}
	}
}
