package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// A run that is started here is executed from the answer to its start. While it is parked,
// a message goes to it directly. Only after its eviction it is read from the store.
func TestRunIsLoadedOnlyAfterItsEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory.New()}
		var steps, replays atomic.Int64
		e := newEngine(t, s, "n", with("w", func(b *runner.Branch) ([]byte, error) {
			replays.Add(1)
			if _, err := do(b, "once", func(context.Context) string { steps.Add(1); return "" }); err != nil {
				return nil, err
			}
			return hears(3)(b)
		}))
		defer serve(t, e)()
		synctest.Wait()
		start(t, e, "w", "a")
		synctest.Wait()
		expectStatus(t, e, "a", store.Suspended)
		send(t, e, "a", "one")
		synctest.Wait()
		s.expectLoads(t, 0)
		time.Sleep(2 * time.Second) // it is evicted
		send(t, e, "a", "two")
		send(t, e, "a", "three")
		expectEnd(t, e, "a", store.Succeeded, "one two three")
		s.expectLoads(t, 1)
		if steps.Load() != 1 || replays.Load() != 2 {
			t.Errorf("the step was executed %d times, the code %d times; want 1, 2", steps.Load(), replays.Load())
		}
	})
}

// What arrives while a run is being loaded waits until the run is there. It is not in the
// snapshot, and the first turn knows of it.
func TestMessageThatArrivesWhileARunIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory.New()}
		read, goOn := make(chan struct{}), make(chan struct{})
		s.load = func(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
			snapshots, left, err := s.Store.Load(ctx, runs)
			close(read)
			<-goOn
			return snapshots, left, err
		}
		s.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
			result, err := s.Store.Commit(ctx, b)
			for i := range result.Turns {
				if v := result.Turns[i].Verdict; v != store.Committed {
					t.Errorf("a turn is %s: it did not know of the second message", v)
				}
			}
			return result, err
		}
		e := newEngine(t, s, "n", with("w", hears(2)))
		defer serve(t, e)()
		synctest.Wait()
		start(t, e, "w", "a")
		time.Sleep(2 * time.Second) // it is evicted
		send(t, e, "a", "first")
		<-read
		send(t, e, "a", "second")
		synctest.Wait()
		close(goOn)
		expectEnd(t, e, "a", store.Succeeded, "first second")
		s.expectLoads(t, 1)
	})
}

// An item that reaches the store before the turn that suspends the run keeps it active.
func TestItemBeforeASuspendKeepsTheRunActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New()
		s := &gated{Store: shared}
		front := newEngine(t, shared.Join(), "front")
		var suspends int
		s.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
			if turnsTo(&b, store.Suspended) == 0 {
				return s.Store.Commit(ctx, b)
			}
			suspends++
			send(t, front, "a", "early")
			result, err := s.Store.Commit(ctx, b)
			if err == nil && result.Turns[0].Verdict != store.StillReady {
				t.Errorf("the verdict is %s; want still ready", result.Turns[0].Verdict)
			}
			return result, err
		}
		e := newEngine(t, s, "n", with("w", hears(1)))
		defer serve(t, e)()
		synctest.Wait()
		start(t, e, "w", "a")
		expectEnd(t, e, "a", store.Succeeded, "early")
		if suspends != 1 {
			t.Errorf("the run was to be suspended %d times; want once", suspends)
		}
	})
}

// The store says so of a second item with an ID. The run has received the first one, and
// gets nothing again.
func TestRepeatedMessageIsReceivedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, memory.New(), "n", with("w", hears(2)))
		defer serve(t, e)()
		synctest.Wait()
		start(t, e, "w", "a")
		for range 3 {
			send(t, e, "a", "same")
			synctest.Wait()
		}
		expectStatus(t, e, "a", store.Suspended)
		send(t, e, "a", "other")
		expectEnd(t, e, "a", store.Succeeded, "same other")
	})
}

// A turn whose lease is not current has no effect: the body of the run is cancelled, and
// the next stay of the shard begins with what stands.
func TestFencedTurnEndsTheStay(t *testing.T) {
	for _, slots := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			s := &gated{Store: memory.New(memory.Slots(slots))}
			var fenced atomic.Bool
			s.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
				if turnsTo(&b, store.Succeeded) == 0 || fenced.Swap(true) {
					return s.Store.Commit(ctx, b)
				}
				verdicts := make([]store.TurnResult, len(b.Turns))
				for i := range verdicts {
					verdicts[i].Verdict = store.Fenced
				}
				b.Turns = nil
				result, err := s.Store.Commit(ctx, b)
				result.Turns = verdicts
				return result, err
			}
			var happened trace
			e := newEngine(t, s, "n", with("w", func(b *runner.Branch) ([]byte, error) {
				happened.add("begin")
				return []byte("done"), nil
			}), with("other", does(func(ctx context.Context) string {
				if fenced.Load() {
					return "again"
				}
				<-ctx.Done()
				happened.add("cancelled")
				return ""
			})))
			defer serve(t, e)()
			time.Sleep(time.Minute) // a member takes the shards in steps
			other := "b"
			for e.Slot(other) != e.Slot("a") {
				other += "b"
			}
			start(t, e, "other", other)
			synctest.Wait()
			start(t, e, "w", "a")
			expectEnd(t, e, "a", store.Succeeded, "done")
			expectEnd(t, e, other, store.Succeeded, "again")
			happened.expectAll(t, "begin", "begin", "cancelled")
		})
	}
}

// A history that cannot be read stalls its run, with what to do about it, and no other.
func TestDamagedHistoryStallsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory.New()}
		s.load = func(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
			snapshots, left, err := s.Store.Load(ctx, runs)
			for i := range snapshots {
				for k := range snapshots[i].Entries {
					if snapshots[i].Run.ID == "a" {
						snapshots[i].Entries[k].Value = []byte("\xff")
					}
				}
			}
			return snapshots, left, err
		}
		e := newEngine(t, s, "n", with("w", hears(2)))
		defer serve(t, e)()
		synctest.Wait()
		start(t, e, "w", "a", "b")
		send(t, e, "a", "one")
		send(t, e, "b", "one")
		time.Sleep(3 * time.Second) // both are evicted
		send(t, e, "a", "two")
		send(t, e, "b", "two")
		expectEnd(t, e, "a", store.Stalled, "")
		if run, _, _ := e.Get(t.Context(), "a"); run.Reason == "" {
			t.Error("the run is stalled without a reason")
		}
		expectEnd(t, e, "b", store.Succeeded, "one two")
	})
}

// A run that could not be loaded stays claimed, and is loaded again: after a poll if the
// store could not be reached, and after half a minute if its values cannot be read.
func TestRunThatCannotBeLoadedIsLoadedLater(t *testing.T) {
	for _, c := range []struct {
		problem error
		after   time.Duration
	}{
		{store.ErrUnavailable, time.Second},
		{errors.New("no key"), 30 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &gated{Store: memory.New()}
			failed := false
			s.load = func(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
				if !failed {
					failed = true
					return nil, nil, c.problem
				}
				return s.Store.Load(ctx, runs)
			}
			e := newEngine(t, s, "n", with("w", hears(1)))
			defer serve(t, e)()
			synctest.Wait()
			start(t, e, "w", "a")
			time.Sleep(2 * time.Second) // it is evicted
			began := time.Now()
			send(t, e, "a", "word")
			expectEnd(t, e, "a", store.Succeeded, "word")
			if took := time.Since(began); took != c.after {
				t.Errorf("%v: the run ended after %s; want %s", c.problem, took, c.after)
			}
		})
	}
}

// With no room for parked runs, each is evicted once its suspension is committed.
func TestNothingIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory.New()}
		none := func(cfg *engine.Config) { cfg.MaxParkedBytes = 0 }
		e := newEngine(t, s, "n", none, with("w", hears(2)))
		defer serve(t, e)()
		synctest.Wait()
		start(t, e, "w", "a")
		for _, word := range []string{"one", "two"} {
			synctest.Wait()
			send(t, e, "a", word)
		}
		expectEnd(t, e, "a", store.Succeeded, "one two")
		s.expectLoads(t, 2)
	})
}

// TestRunThatIsParkedLongestIsEvictedFirst: of three small runs, where two have room.
func TestRunThatIsParkedLongestIsEvictedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory.New()}
		long := func(cfg *engine.Config) { cfg.MaxParkedBytes, cfg.ParkFor = 40_000, time.Hour }
		e := newEngine(t, s, "n", long, with("w", hears(1)))
		defer serve(t, e)()
		synctest.Wait()
		for _, id := range []string{"a", "b", "c"} {
			start(t, e, "w", id)
			synctest.Wait() // it is parked
		}
		for _, id := range []string{"b", "c"} {
			send(t, e, id, "word")
			expectEnd(t, e, id, store.Succeeded, "word")
		}
		s.expectLoads(t, 0)
		send(t, e, "a", "word")
		expectEnd(t, e, "a", store.Succeeded, "word")
		s.expectLoads(t, 1)
	})
}

// TestParkedRunsCountWithTheirValues: what a run has recorded counts, whether it was executed here or loaded, and so do
// its input and what it has not received. One that alone is too large does not stay, and evicts no other.
func TestParkedRunsCountWithTheirValues(t *testing.T) {
	const kb = 1000
	large := strings.Repeat("x", 100*kb)
	for what, c := range map[string]struct {
		room    int
		prepare func(t *testing.T, e *engine.Engine) // the runs b, c: one of them evicts a, unless stays
		stays   bool
	}{
		"history":              {250 * kb, func(t *testing.T, e *engine.Engine) { start(t, e, "records", "b", "c") }, false},
		"room for its history": {400 * kb, func(t *testing.T, e *engine.Engine) { start(t, e, "records", "b", "c") }, true},
		"inbox": {120 * kb, func(t *testing.T, e *engine.Engine) {
			start(t, e, "w", "b")
			synctest.Wait()
			tell(t, e, store.Command{RunID: "b", Item: &store.Item{Kind: store.ItemMessage, Name: "other", ID: "1",
				Value: []byte(large)}})
		}, false},
		"input": {120 * kb, func(t *testing.T, e *engine.Engine) {
			first := newStart(e, "w", "b")
			first.Input = []byte(large)
			tell(t, e, store.Command{Start: first})
		}, false},
		"too large": {100 * kb, func(t *testing.T, e *engine.Engine) { start(t, e, "records", "b", "c") }, true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &gated{Store: memory.New()}
				e := newEngine(t, s, "n", with("w", hears(1)), with("records", func(b *runner.Branch) ([]byte, error) {
					if _, err := do(b, "large", func(context.Context) string { return large }); err != nil {
						return nil, err
					}
					return hears(1)(b)
				}), func(cfg *engine.Config) { cfg.MaxParkedBytes, cfg.ParkFor = c.room, time.Hour })
				defer serve(t, e)()
				synctest.Wait()
				start(t, e, "w", "a")
				synctest.Wait()
				c.prepare(t, e)
				synctest.Wait()
				s.expectLoads(t, 0)
				send(t, e, "a", "word")
				expectEnd(t, e, "a", store.Succeeded, "word")
				want := int64(1)
				if c.stays {
					want = 0
				}
				s.expectLoads(t, want)
			})
		})
	}
}
