package postgres_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/postgres"
)

// TestCommitOneStep completes steps of a run, one in each batch, for which the store does
// not read the run any more. A step is refused all the same if the run is not claimed: after
// its end, written by this handle or another one of the boot, or after the lease was given
// back and taken again.
func TestCommitOneStep(t *testing.T) {
	t.Parallel()
	end := func(run store.Run) *store.Turn {
		return &store.Turn{Run: run.No, Shard: run.Shard,
			Update: &store.Update{Status: store.Succeeded, Output: []byte("out")}}
	}
	for _, c := range []struct {
		name string
		lose func(t *testing.T, n, other *node, run store.Run)
		want store.Verdict
	}{
		{"in hand", func(*testing.T, *node, *node, store.Run) {}, store.Committed},
		{"another run's step between", func(t *testing.T, n, _ *node, _ store.Run) {
			run := n.started(t, "between")
			n.commit(t, &store.Turn{Run: run.No, Shard: run.Shard, Insert: true, Entries: []store.Entry{done("a")}})
		}, store.Committed},
		{"ended", func(t *testing.T, n, _ *node, run store.Run) { n.commit(t, end(run)) }, store.Refused},
		{"ended through another handle", func(t *testing.T, n, other *node, run store.Run) {
			other.no = n.no
			other.commit(t, end(run))
			n.no = other.no
		}, store.Refused},
		{"given back and taken again", func(t *testing.T, n, _ *node, _ store.Run) {
			if err := n.s.Release(t.Context(), n.leases); err != nil {
				t.Fatal(err)
			}
			n.acquire(t)
		}, store.Refused},
		{"given back", func(t *testing.T, n, _ *node, _ store.Run) {
			if err := n.s.Release(t.Context(), n.leases); err != nil {
				t.Fatal(err)
			}
		}, store.Fenced},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHandles(t)
			n := takeAll(t, h.first, "n")
			other := &node{s: h.open(t), node: n.node, leases: n.leases}
			run := n.started(t, "run")
			step := func(e store.Entry) store.Verdict {
				t.Helper()
				return n.commit(t, &store.Turn{Run: run.No, Shard: run.Shard, Insert: true,
					Entries: []store.Entry{e}}).Turns[0].Verdict
			}
			want := []store.Entry{done("a"), done("b"), done("c")}
			want[1].Value, want[2].Value, want[2].Owes = nil, []byte{}, true
			for _, e := range want {
				if v := step(e); v != store.Committed {
					t.Fatalf("expected a commit, found %s", v)
				}
			}
			c.lose(t, n, other, run)
			if v := step(done("d")); v != c.want {
				t.Errorf("expected the step to be %s, found %s", c.want, v)
			}
			if c.want == store.Committed {
				want = append(want, done("d"))
			}
			got, err := n.s.History(t.Context(), store.HistoryQuery{Run: run.No, Values: true})
			if err != nil || len(got) != len(want) {
				t.Fatalf("expected %d entries, found %+v: %v", len(want), got, err)
			}
			for i := range want {
				if !equal(&got[i], &want[i]) {
					t.Errorf("expected %+v, found %+v", want[i], got[i])
				}
			}
		})
	}
}

// equal compares entries, as far as the test sets them.
func equal(a, b *store.Entry) bool {
	return a.Loc == b.Loc && a.Kind == b.Kind && a.State == b.State && a.Seq == b.Seq && a.At == b.At &&
		a.Attempt == b.Attempt && a.Owes == b.Owes &&
		a.Started == b.Started && a.Ended == b.Ended && string(a.Value) == string(b.Value) &&
		(a.Value == nil) == (b.Value == nil)
}

// atRest returns the owner of a new store whose clock stands still.
func atRest(t *testing.T, opts ...postgres.Option) *node {
	t.Helper()
	s, _, _ := fresh(t, append(opts, postgres.Clock(func() time.Time { return time.UnixMicro(2e15) }))...)
	return takeAll(t, s, "n")
}

// TestCommitOneTurn writes turns with an update one by one, in batches of their own, and
// with a start before each: a store that writes every batch turn by turn has the same
// runs and entries afterwards.
func TestCommitOneTurn(t *testing.T) {
	t.Parallel()
	e := []store.Entry{done("last")}
	for _, c := range []struct {
		name    string
		entries []store.Entry
		updates []store.Update
	}{
		{"succeeds", e, []store.Update{{Status: store.Succeeded, Output: []byte("out"), Build: "v2"}}},
		{"succeeds with nothing", nil, []store.Update{{Status: store.Succeeded}}},
		{"fails", e, []store.Update{{Status: store.Failed, Reason: "why", Output: []byte("out")}}},
		{"is cancelled", nil, []store.Update{{Status: store.Cancelled, Marks: store.Cancelling}}},
		{"suspends", e, []store.Update{{Status: store.Suspended, WakeAt: 4e15, Waits: []byte("w")}}},
		{"suspends for ever", nil, []store.Update{{Status: store.Suspended}}},
		{"is paused", nil, []store.Update{{Status: store.Suspended, Marks: store.Paused, WakeAt: 4e15}}},
		{"stalls", nil, []store.Update{{Status: store.Stalled, Reason: "why"}}},
		{"goes on", e, []store.Update{{Status: store.Running, Build: "v0", Isolate: true},
			{Status: store.Running, EndIsolation: true, Build: "v3"}}},
		{"is given back", nil, []store.Update{{Status: store.Running, Unclaim: true, Waits: []byte("w")}}},
		{"is queued again", nil, []store.Update{{Status: store.Queued, WakeAt: 4e15}}},
		{"cannot begin anew", nil, []store.Update{{Status: store.Stalled}, {Status: store.Running}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			type outcome struct {
				Run      store.Run
				Entries  []store.Entry
				Verdicts []store.Verdict
			}
			do := func(opts ...postgres.Option) (o outcome) {
				t.Helper()
				n := atRest(t, opts...)
				run := n.started(t, "run")
				for i := range c.updates {
					turn := &store.Turn{Run: run.No, Shard: run.Shard, Update: &c.updates[i]}
					if i == 0 {
						turn.Insert, turn.Entries = true, c.entries
					}
					o.Verdicts = append(o.Verdicts, n.commit(t, turn).Turns[0].Verdict)
				}
				page, err := n.s.List(t.Context(), store.Filter{Nos: []store.RunNo{run.No}, Values: true})
				if err != nil || len(page.Runs) != 1 {
					t.Fatalf("list: %v, %+v", err, page)
				}
				o.Run = page.Runs[0]
				if o.Entries, err = n.s.History(t.Context(), store.HistoryQuery{Run: run.No, Values: true}); err != nil {
					t.Fatal(err)
				}
				return o
			}
			if got, want := do(), do(postgres.TurnByTurn()); !reflect.DeepEqual(got, want) {
				t.Errorf("expected what a store has that writes turn by turn:\n%+v\nfound\n%+v", want, got)
			}
		})
	}
}
