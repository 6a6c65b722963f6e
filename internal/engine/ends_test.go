package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestARunEndsAsItsTerminateWasAnswered: a cancel that comes while a run is terminated before it begins keeps
// it from ending in that turn. It ends in the next one, and no code is executed.
func TestARunEndsAsItsTerminateWasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New()
		s := &gated{Store: shared}
		var executed, came atomic.Bool
		e := newEngine(t, s, "n", with("w", func(*runner.Branch) ([]byte, error) {
			executed.Store(true)
			return nil, nil
		}))
		var answer store.Answer
		s.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
			if turnsTo(&b, store.Cancelled) > 0 && !came.Swap(true) {
				it := store.Item{Kind: store.ItemCancel, Name: "operator", ID: "cancel", Origin: "cancel"}
				answers, _, err := shared.Apply(ctx, []store.Command{{RunID: "a", Item: &it}})
				if err != nil {
					t.Error(err)
				}
				answer = answers[0]
			}
			return s.Store.Commit(ctx, b)
		}
		defer serve(t, e)()
		start := newStart(e, "w", "a")
		start.After = store.Delay(time.Hour / time.Microsecond)
		tell(t, e, store.Command{Start: start})
		if accepted, reason := request(t, e, "a", store.ItemTerminate, "terminate"); !accepted {
			t.Fatal(reason)
		}
		expectEnd(t, e, "a", store.Cancelled, "")
		if run, _, err := e.Get(t.Context(), "a"); err != nil || run.Reason != "terminated" {
			t.Errorf("the run is %s, %q, %v", run.Status, run.Reason, err)
		}
		if verdict, err := e.Verdict(limit(t), answer.Run.No, answer.Item, "cancel"); err != nil || len(verdict) == 0 {
			t.Errorf("the cancel is answered with %q, %v", verdict, err)
		}
		if executed.Load() || !came.Load() {
			t.Errorf("the code was executed: %t; a cancel came meanwhile: %t", executed.Load(), came.Load())
		}
	})
}
