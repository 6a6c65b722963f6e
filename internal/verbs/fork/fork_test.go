package fork_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/history"
	"github.com/stet-run/stet/internal/verbs/fork"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestFork: of a run that goes on there is no fork, and of one that has ended its start is
// that of the run, with the history before the location.
func TestFork(t *testing.T) {
	ctx := t.Context()
	s := memory.New()
	shard := store.Shard{Group: store.DefaultGroup}
	ttl := store.Delay(time.Hour.Microseconds())
	acquired, _, err := s.Acquire(ctx, store.Node{ID: "n", Boot: "b"}, []store.Shard{shard}, ttl)
	if err != nil {
		t.Fatal(err)
	}
	batch := int64(0)
	commit := func(b store.Batch) store.BatchResult {
		t.Helper()
		batch++
		b.Node, b.Boot, b.No, b.Leases = "n", "b", batch, []store.Lease{acquired[0].Lease}
		r, err := s.Commit(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	start := &store.Start{ID: "a", Workflow: "w", Shard: shard, Input: []byte("in"), Seed: store.Seed{1}}
	run := commit(store.Batch{Commands: []store.Command{{Start: start, Claim: true}}}).Commands[0].Run
	asked := 0
	source := fork.Source{
		Store: s, Now: func() store.Time { return run.Created },
		Values: func(context.Context, store.RunNo, int, []string) ([]store.Entry, error) {
			asked++
			return nil, errors.New("no value is large")
		},
	}
	if _, ok, err := source.Start(ctx, "b", "", store.Audit{}); ok || err != nil {
		t.Errorf("of no run there is a fork: %t, %v", ok, err)
	}
	var refused history.Refusal
	if _, ok, err := source.Start(ctx, "a", "", store.Audit{}); !ok || !errors.As(err, &refused) {
		t.Errorf("the fork of a running run: %t, %v; want a refusal", ok, err)
	}
	end := &store.Turn{Run: run.No, Shard: shard, Update: &store.Update{Status: store.Succeeded, Output: []byte("out")}}
	if r := commit(store.Batch{Turns: []*store.Turn{end}}); r.Turns[0].Verdict != store.Committed {
		t.Fatal(r.Turns[0])
	}
	got, ok, err := source.Start(ctx, "a", "", store.Audit{Who: "me"})
	if err != nil || !ok {
		t.Fatalf("the fork of an ended run: %t, %v", ok, err)
	}
	if got.Workflow != "w" || string(got.Input) != "in" || got.Shard != shard || got.Fork == nil || asked != 0 {
		t.Errorf("the fork starts as %+v; values were asked for %d times", got, asked)
	}
	if a := got.Fork.Audit; len(a) != 1 || a[0].Who != "me" || !strings.HasPrefix(a[0].Detail, "from run a (number ") {
		t.Errorf("the audit of the fork is %+v", a)
	}
}
