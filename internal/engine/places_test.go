package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// While the store takes no outcome, no more bodies are executed than there are places: a
// crash would repeat no more. All go on when it does, also if it loses answers or refuses.
func TestABodyKeepsItsPlaceUntilItsOutcomeIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, runs = 4, 30
		var executed, durable, most atomic.Int64
		var open atomic.Bool
		gate := make(chan struct{})
		g := &gated{Store: memory.New()}
		g.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
			outcomes := int64(0)
			for _, turn := range b.Turns {
				outcomes += int64(len(turn.Entries))
			}
			if outcomes > 0 && !open.Load() {
				<-gate
			}
			result, err := g.Store.Commit(ctx, b)
			if err == nil {
				durable.Add(outcomes)
			}
			return result, err
		}
		body := func(context.Context) string {
			n := executed.Add(1) - durable.Load()
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Millisecond)
			return "done"
		}
		e := newEngine(t, g, "n", with("w", does(body)), func(cfg *engine.Config) {
			cfg.MaxSteps, cfg.MaxRuns = places, 2*runs
		})
		stop := serve(t, e)
		for i := range runs { // some are not started: a start waits for the commit before it
			go func() {
				c := store.Command{Start: newStart(e, "w", fmt.Sprint(i))}
				if _, err := e.Apply(t.Context(), []store.Command{c}); err != nil {
					t.Error(err)
				}
			}()
		}
		for range 5 {
			time.Sleep(time.Second)
			select {
			case gate <- struct{}{}: // one batch
			default:
			}
		}
		if n := most.Load(); n > places {
			t.Errorf("%d bodies had been executed whose outcomes were not durable; want %d at most", n, places)
		}
		open.Store(true)
		close(gate)
		for i := range runs {
			expectEnd(t, e, fmt.Sprint(i), store.Succeeded, "")
		}
		if n := most.Load(); n != places {
			t.Errorf("%d bodies had been executed whose outcomes were not durable; want %d", n, places)
		}
		stop()
	})
}

// A place comes back whatever becomes of the run: its step fails for good, its code is over,
// it is terminated, or its turn is refused.
func TestPlacesComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		g := &gated{Store: memory.New()}
		g.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
			if refuse.Load() && len(b.Turns) == 1 && len(b.Turns[0].Entries) > 0 {
				return store.BatchResult{}, store.ErrInvalid
			}
			return g.Store.Commit(ctx, b)
		}
		slow := func(ctx context.Context) string {
			select {
			case <-time.After(time.Hour):
			case <-ctx.Done():
			}
			return "late"
		}
		e := newEngine(t, g, "n", with("slow", does(slow)), with("quick", does(func(context.Context) string { return "ok" })),
			func(cfg *engine.Config) { cfg.MaxSteps = 1 })
		stop := serve(t, e)
		for i := range 5 {
			id := fmt.Sprint("slow ", i)
			start(t, e, "slow", id)
			synctest.Wait()
			if ok, reason := request(t, e, id, store.ItemTerminate, "terminate "+id); !ok {
				t.Fatal(reason)
			}
			refuse.Store(true)
			refused := fmt.Sprint("refused ", i)
			start(t, e, "quick", refused)
			time.Sleep(time.Minute)
			expectStatus(t, e, refused, store.Stalled)
			refuse.Store(false)
			quick := fmt.Sprint("quick ", i)
			start(t, e, "quick", quick)
			expectEnd(t, e, quick, store.Succeeded, "ok")
		}
		stop()
	})
}
