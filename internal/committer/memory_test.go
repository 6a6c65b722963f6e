package committer_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestRunsInAStore: what is submitted by many goroutines at once stands in the store in
// the end.
func TestRunsInAStore(t *testing.T) {
	const runs = 50
	ctx := t.Context()
	s := memory.New()
	shard := store.Shard{Group: store.DefaultGroup}
	ttl := store.Delay(time.Hour.Microseconds())
	acquired, _, err := s.Acquire(ctx, store.Node{ID: "n", Boot: "b"}, []store.Shard{shard}, ttl)
	if err != nil {
		t.Fatal(err)
	}
	o := &owner{}
	o.set.Take(ctx, []store.Lease{acquired[0].Lease})
	held := o.set.Now().Of(shard)
	var batches committer.Numbers
	c := committer.New(ctx, committer.Config{
		Store: s, Node: "n", Boot: "b", Batches: &batches, TTL: time.Hour, Log: slog.New(slog.DiscardHandler),
		Seal:    func(_ context.Context, turn *store.Turn) (*store.Turn, error) { return turn, nil },
		Crowded: func() bool { return false }, Observe: func(time.Time, store.Time) {},
	}, o)
	running, stop := context.WithCancel(ctx)
	var writer, all sync.WaitGroup
	writer.Go(func() { c.Run(running) })
	for i := range runs {
		start := &store.Start{ID: fmt.Sprint("run-", i), Workflow: "w", Shard: shard}
		all.Add(1)
		end := func(run store.Run) {
			turn := &store.Turn{Run: run.No, Shard: shard, Update: &store.Update{Status: store.Succeeded}}
			c.SubmitTurn(committer.Turn{Shard: held, Turn: turn, Done: func(r store.TurnResult) {
				if r.Verdict != store.Committed {
					t.Errorf("run %s: a turn was answered by %s: %s", run.ID, r.Verdict, r.Reason)
				}
				all.Done()
			}})
		}
		go c.SubmitCommands([]committer.Command{{
			Command: store.Command{Start: start, Claim: true},
			Done: func(in *ownership.Shards, a store.Answer, _ store.Time, err error) {
				if err != nil || a.Outcome != store.Applied || !a.Claimed || in.Of(shard) != held {
					t.Errorf("run %s: a start was answered by %+v, %v", start.ID, a, err)
				}
				go end(a.Run)
			},
		}})
	}
	all.Wait()
	stop()
	writer.Wait()
	page, err := s.List(ctx, store.Filter{Statuses: []store.Status{store.Succeeded}, Limit: 2 * runs})
	if err != nil || len(page.Runs) != runs {
		t.Errorf("%d runs have succeeded, %v; want %d", len(page.Runs), err, runs)
	}
	if n := batches.Acknowledged(); n > 2*runs {
		t.Errorf("%d batches were written for %d turns and as many commands", n, runs)
	}
}
