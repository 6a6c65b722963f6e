package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestARunEndsAsItsTerminateWasAnswered: a cancel that comes while a run is terminated keeps it from ending in
// that turn. It ends in the next one, also if another process writes that, and no code is executed that was not.
// Until then the terminate has no answer.
func TestARunEndsAsItsTerminateWasAnswered(t *testing.T) {
	for _, rests := range []bool{true, false} {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprintf("rests=%t dies=%t", rests, dies), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { endsAsAnswered(t, rests, dies) })
			})
		}
	}
}

func endsAsAnswered(t *testing.T, rests, dies bool) {
	shared := memory.New()
	s := &gated{Store: shared}
	var called, begun, came, dead atomic.Bool
	code := with("w", func(b *runner.Branch) ([]byte, error) {
		called.Store(true)
		return do(b, "work", func(ctx context.Context) string {
			begun.Store(true)
			<-ctx.Done()
			return "ended"
		})
	})
	var terminate, cancel store.Answer
	s.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
		if dead.Load() {
			return store.BatchResult{}, fmt.Errorf("the process is dead: %w", store.ErrUnavailable)
		}
		if turnsTo(&b, store.Cancelled) == 0 || came.Swap(true) {
			return s.Store.Commit(ctx, b)
		}
		it := store.Item{Kind: store.ItemCancel, Name: "operator", ID: "cancel", Origin: "cancel"}
		answers, _, err := shared.Apply(ctx, []store.Command{{RunID: "a", Item: &it}})
		if err != nil {
			t.Error(err)
		}
		cancel = answers[0]
		result, err := s.Store.Commit(ctx, b)
		for i := range b.Turns {
			if b.Turns[i].Run == cancel.Run.No && (err != nil || result.Turns[i].Verdict != store.StillReady) {
				t.Errorf("beside the cancel the end is %s, %v", result.Turns[i].Verdict, err)
			}
		}
		items, err := shared.Inbox(ctx, cancel.Run.No, "terminate")
		if err != nil || len(items) != 1 || items[0].State != store.New || items[0].Verdict != nil {
			t.Errorf("the terminate is %+v, %v", items, err)
		}
		dead.Store(dies)
		return result, err
	}
	e := newEngine(t, s, "n", code)
	end := begin(t, e)
	start := newStart(e, "w", "a")
	if rests {
		start.After = store.Delay(time.Hour / time.Microsecond)
	}
	tell(t, e, store.Command{Start: start})
	synctest.Wait()
	it := store.Item{Kind: store.ItemTerminate, Name: "operator", ID: "terminate", Origin: "terminate"}
	terminate = tell(t, e, store.Command{RunID: "a", Item: &it})
	time.Sleep(5 * time.Second)
	if dies {
		_ = end() // it cannot write any more
		called.Store(false)
		begun.Store(false)
		e = newEngine(t, shared, "m", code)
		end = begin(t, e)
	}
	defer func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}()
	expectEnd(t, e, "a", store.Cancelled, "")
	if run, _, err := e.Get(t.Context(), "a"); err != nil || run.Reason != "terminated" {
		t.Errorf("the run is %s, %q, %v", run.Status, run.Reason, err)
	}
	for id, item := range map[string]store.ItemNo{"terminate": terminate.Item, "cancel": cancel.Item} {
		verdict, err := e.Verdict(limit(t), terminate.Run.No, item, id)
		if err != nil || len(verdict) == 0 || (verdict[0] == 'y') != (id == "terminate") {
			t.Errorf("the %s is answered with %q, %v", id, verdict, err)
		}
	}
	acts, err := shared.Audit(t.Context(), terminate.Run.No)
	if err != nil || len(acts) != 1 || acts[0].Verb != "terminate" {
		t.Errorf("the acts are %+v, %v", acts, err)
	}
	if called.Load() && rests && !dies || begun.Load() == (rests || dies) || !came.Load() {
		t.Errorf("the code was called: %t, its step: %t; a cancel came: %t", called.Load(), begun.Load(), came.Load())
	}
}
