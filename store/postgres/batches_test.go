package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stet-run/stet/internal/testing/servers"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestSnapshotOfSomebody: while somebody's transaction is open a commit reads as many blocks
// after thousands of commits as before, whichever way it takes: no row that it reads has a
// version for each commit.
func TestSnapshotOfSomebody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts []postgres.Option
	}{{"one statement", nil}, {"turn by turn", []postgres.Option{postgres.TurnByTurn()}}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const commits, measured = 600, 8
			w := newWatched(t)
			w.analyze()
			w.open(append(c.opts, postgres.KeptBatches(commits/4))...)
			somebody := application(t, w.dsn)
			if _, err := somebody.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM "+w.schema+
				".meta"); err != nil {
				t.Fatal(err)
			}
			run := w.n.started(t, "run")
			step := func(locs ...string) {
				turn := &store.Turn{Run: run.No, Shard: run.Shard, Insert: true}
				for _, loc := range locs {
					turn.Entries = append(turn.Entries, done(loc))
				}
				w.n.commit(t, turn)
			}
			blocks := func() float64 {
				var each []float64
				for i := range measured {
					w.mu.Lock()
					w.plans = nil
					w.mu.Unlock()
					// Two entries take another statement than one.
					step(fmt.Sprint("m", w.n.no), fmt.Sprint("n", i, w.n.no))
					sum := 0.0
					w.mu.Lock()
					for i := range w.plans {
						sum += w.plans[i].Plan.Hit + w.plans[i].Plan.Read
					}
					w.mu.Unlock()
					each = append(each, sum)
				}
				slices.Sort(each)
				return each[measured/2]
			}
			for i := range 20 { // plans, and the first blocks of each table
				step(fmt.Sprint("w", i))
			}
			before := blocks()
			for i := range commits {
				step(fmt.Sprint("s", i))
			}
			after := blocks()
			t.Logf("blocks per commit: %v, after %d commits %v", before, commits, after)
			if before == 0 || after > before+10 {
				t.Errorf("a commit reads %v blocks, and %v after %d commits; expected about as many", before, after, commits)
			}
		})
	}
}

// TestSettledBatches: former batches are deleted, and a late duplicate of one is refused, whether
// it is still in the table or not. The last one is repeated with the verdicts that it had.
func TestSettledBatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts []postgres.Option
	}{{"one statement", nil}, {"turn by turn", []postgres.Option{postgres.TurnByTurn()}}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const kept, batches = 5, 23
			s, dsn, schema := fresh(t, postgres.KeptBatches(kept))
			n := takeAll(t, s, "n")
			run := n.started(t, "run")
			batch := func(no int64) store.Batch {
				return store.Batch{Node: n.node.ID, Boot: n.node.Boot, No: no, Leases: n.leases, Turns: []*store.Turn{{Run: run.No,
					Shard: run.Shard, Insert: true, Entries: []store.Entry{done(fmt.Sprint("step ", no))}}}}
			}
			admin := application(t, dsn)
			stand := func() (rows int) {
				t.Helper()
				if err := admin.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".batches").Scan(&rows); err != nil {
					t.Fatal(err)
				}
				return rows
			}
			for n.no < batches {
				n.no++
				if _, err := s.Commit(t.Context(), batch(n.no)); err != nil {
					t.Fatal(err)
				}
				if rows := stand(); rows < 1 || rows > kept+1 {
					t.Fatalf("after batch %d: %d rows of batches; expected 1 to %d", n.no, rows, kept+1)
				}
			}
			for late := int64(1); late < batches; late++ {
				if _, err := s.Commit(t.Context(), batch(late)); !errors.Is(err, store.ErrInvalid) {
					t.Errorf("batch %d after %d: expected it to be refused, found %v", late, batches, err)
				}
			}
			again, err := s.Commit(t.Context(), batch(batches))
			if err != nil || again.Turns[0].Verdict != store.Committed {
				t.Errorf("the last batch again: %+v, %v", again, err)
			}
			if got, _, err := s.Load(t.Context(), []store.RunNo{run.No}); err != nil || len(got[0].Entries) != batches-1 {
				t.Errorf("expected %d entries: %v", batches-1, err)
			}
			gone := n.node
			gone.Stopped = true
			if _, err := s.Register(t.Context(), gone); err != nil {
				t.Fatal(err)
			}
			if rows := stand(); rows != 0 {
				t.Errorf("%d rows of batches of a node that has stopped", rows)
			}
		})
	}
}

// TestAfterABatchOfUnknownOutcome: the answer to a batch is lost, and its caller goes on with
// another one in place of repeating it. What may still be under way of the first is waited for,
// and nothing of it is written after that.
func TestAfterABatchOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	server := newDatabase(t)
	proxy := servers.NewProxy(t, server.Addr())
	n := takeAll(t, open(t, server.TCP(proxy.Addr())), "n")
	n.started(t, "a")
	under := application(t, server.DSN()) // as a commit that is under way
	hold := func() {
		if _, err := under.Exec(t.Context(), "BEGIN; SELECT FROM stet.boots FOR KEY SHARE"); err != nil {
			t.Fatal(err)
		}
	}
	hold()
	n.started(t, "b") // it waits for no other one, if the last answer has come
	proxy.LoseAnswer(0)
	_, err := n.s.Commit(t.Context(), n.batch(nil, claimedStart("c")))
	if !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("expected a lost answer, found %v", err)
	}
	lost := n.no
	next := n.batch(nil, claimedStart("d"))
	if _, err = n.s.Commit(t.Context(), next); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("expected it to wait for what is under way, found %v", err)
	}
	if _, err := under.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	until(t, func() error { _, err := n.s.Commit(t.Context(), next); return err })
	var settled int64
	if err := under.QueryRow(t.Context(), "SELECT settled FROM stet.boots").Scan(&settled); err != nil || settled != lost {
		t.Errorf("batches up to %d are settled, expected %d: %v", settled, lost, err)
	}
}
