package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// verdicts counts how often a verb is answered, by its item.
type verdicts map[store.ItemNo]int

// watch counts the verdicts in what the store commits.
func (v verdicts) watch(s *gated) {
	s.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
		result, err := s.Store.Commit(ctx, b)
		for i := range result.Turns {
			for _, c := range b.Turns[i].ConsumedBy(result.Turns[i].Verdict) {
				if c.Verdict != nil {
					v[c.Item]++
				}
			}
		}
		return result, err
	}
}

// A verb on a run at rest is decided once, and without its code. A repeat of it gets the
// same answer.
func TestVerbOnARestingRunIsDecidedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, answered, replays := &gated{Store: memory.New()}, verdicts{}, 0
		answered.watch(s)
		talk := hears(1)
		e := newEngine(t, s, "n", with("w", func(b *runner.Branch) ([]byte, error) { replays++; return talk(b) }))
		defer serve(t, e)()
		synctest.Wait()
		start(t, e, "w", "a")
		for _, verb := range []struct {
			kind store.ItemKind
			id   string
			want bool
		}{
			{store.ItemResume, "1", false},
			{store.ItemPause, "2", true},
			{store.ItemPause, "2", true},
			{store.ItemPause, "3", false},
			{store.ItemTerminate, "4", true},
			{store.ItemTerminate, "4", true},
			{store.ItemCancel, "5", false},
		} {
			synctest.Wait()
			accepted, reason := request(t, e, "a", verb.kind, verb.id)
			if accepted != verb.want || !accepted && reason == "" {
				t.Errorf("%s %s is accepted: %t (%s); want %t", verb.kind, verb.id, accepted, reason, verb.want)
			}
		}
		expectEnd(t, e, "a", store.Cancelled, "")
		for no, n := range answered {
			if n != 1 {
				t.Errorf("item %d was answered %d times; want once", no, n)
			}
		}
		if len(answered) != 5 || replays != 1 {
			t.Errorf("%d verbs were answered, and the code was executed %d times; want 5, once", len(answered), replays)
		}
	})
}

// A paused run keeps what is sent to it, and goes on with that when it is resumed.
func TestPausedRunGoesOnWhenItIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, memory.New(), "n", with("w", hears(1)))
		defer serve(t, e)()
		synctest.Wait()
		start(t, e, "w", "a")
		request(t, e, "a", store.ItemPause, "pause")
		send(t, e, "a", "word")
		time.Sleep(time.Minute)
		if run, _, err := e.Get(t.Context(), "a"); err != nil || run.Marks&store.Paused == 0 || run.Status.Terminal() {
			t.Errorf("the run is %s with the marks %d (%v); want it paused", run.Status, run.Marks, err)
		}
		request(t, e, "a", store.ItemResume, "resume")
		expectEnd(t, e, "a", store.Succeeded, "word")
	})
}

// A decision that the store has not taken leaves the run claimed, and is taken later.
func TestDecisionThatIsRefusedIsTakenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory.New()}
		refused := 0
		s.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
			if turnsTo(&b, store.Cancelled) == 0 || refused == 2 {
				return s.Store.Commit(ctx, b)
			}
			refused++
			verdict := store.TurnResult{Verdict: store.Refused, Reason: "a test"}
			b.Turns = nil
			result, err := s.Store.Commit(ctx, b)
			result.Turns = []store.TurnResult{verdict}
			return result, err
		}
		var l logs
		e := newEngine(t, s, "n", logging(&l), with("w", hears(1)))
		defer serve(t, e)()
		synctest.Wait()
		start(t, e, "w", "a")
		request(t, e, "a", store.ItemPause, "pause")
		time.Sleep(3 * time.Second)
		if accepted, reason := request(t, e, "a", store.ItemTerminate, "verb"); !accepted {
			t.Errorf("the verb is refused: %s", reason)
		}
		expectEnd(t, e, "a", store.Cancelled, "")
		if n := len(l.lines("a decision about a run was not taken")); n != 2 {
			t.Errorf("%d decisions were logged as not taken; want 2", n)
		}
	})
}
