package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// waits is a body that ends after a time, or says that its context has ended before.
func waits(d time.Duration, happened *trace) func(context.Context) string {
	return func(ctx context.Context) string {
		happened.add("begin")
		select {
		case <-time.After(d):
			happened.add("end")
		case <-ctx.Done():
			happened.add("cancelled")
		}
		return "done"
	}
}

// At the end of Run bodies have the grace period to end, and their results are committed.
// Then they are cancelled.
func TestBodiesHaveTheGracePeriodToEnd(t *testing.T) {
	for _, c := range []struct {
		body time.Duration
		took time.Duration
		last string
	}{
		{700 * time.Millisecond, 700 * time.Millisecond, "end"},
		{time.Minute, time.Second, "cancelled"},
	} {
		for _, slots := range []int{1, 2} {
			synctest.Test(t, func(t *testing.T) {
				var happened trace
				e := newEngine(t, memory.New(memory.Slots(slots)), "n", with("w", does(waits(c.body, &happened))))
				stop := serve(t, e)
				time.Sleep(time.Minute) // a member takes the shards in steps
				start(t, e, "w", "a")
				synctest.Wait()
				began := time.Now()
				stop()
				if took := time.Since(began).Round(10 * time.Millisecond); took != c.took {
					t.Errorf("with a body of %s Run has ended after %s; want %s", c.body, took, c.took)
				}
				happened.expect(t, "begin", c.last)
				if c.last == "end" {
					expectStatus(t, e, "a", store.Succeeded)
				}
			})
		}
	}
}

// The end of Run waits for the commit of what bodies have returned.
func TestResultsAreCommittedBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory.New()}
		s.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
			time.Sleep(100 * time.Millisecond)
			return s.Store.Commit(ctx, b)
		}
		var happened trace
		e := newEngine(t, s, "n", with("w", does(waits(700*time.Millisecond, &happened))))
		stop := serve(t, e)
		synctest.Wait()
		start(t, e, "w", "a")
		synctest.Wait()
		stop()
		happened.expect(t, "begin", "end")
		expectStatus(t, e, "a", store.Succeeded)
	})
}

// Bodies and code that do not return are named in the error of Run.
func TestRunNamesTheCodeThatHasNotReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		defer close(free)
		e := newEngine(t, memory.New(), "n",
			with("body", does(func(context.Context) string { <-free; return "" })),
			with("code", func(*runner.Branch) ([]byte, error) { <-free; return nil, nil }),
			with("obeys", does(func(ctx context.Context) string { <-ctx.Done(); return "" })), with("parked", hears(1)))
		end := begin(t, e)
		synctest.Wait()
		start(t, e, "body", "a")
		start(t, e, "code", "b")
		start(t, e, "obeys", "c")
		start(t, e, "parked", "d")
		synctest.Wait()
		began := time.Now()
		err := end()
		if took := time.Since(began).Round(10 * time.Millisecond); took != 3*time.Second {
			t.Errorf("Run has ended after %s; want grace, and a second for bodies and for code", took)
		}
		if err == nil {
			t.Fatal("Run has ended without an error")
		}
		for what, named := range map[string]bool{
			"run a step work": true, "run b workflow code": true, "run c": false, "run d": false,
		} {
			if strings.Contains(err.Error(), what) != named {
				t.Errorf("%q is named: %t; the error is %v", what, !named, err)
			}
		}
	})
}

// A commit that does not come back does not hold the end of Run.
func TestRunEndsThoughACommitHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory.New()}
		s.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
			if turnsTo(&b, store.Succeeded) == 0 {
				return s.Store.Commit(ctx, b)
			}
			<-ctx.Done()
			return store.BatchResult{}, ctx.Err()
		}
		e := newEngine(t, s, "n", with("w", hears(0)))
		end := begin(t, e)
		synctest.Wait()
		start(t, e, "w", "a")
		synctest.Wait()
		began := time.Now()
		if err := end(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("Run has ended after %s", took)
		}
	})
}

// While an engine ends nothing new begins in it: a start stays in the store.
func TestNothingBeginsWhileTheEngineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened trace
		body := waits(700*time.Millisecond, &happened)
		e := newEngine(t, memory.New(), "n", with("w", does(body)))
		stop := serve(t, e)
		synctest.Wait()
		start(t, e, "w", "a")
		synctest.Wait()
		go func() {
			time.Sleep(100 * time.Millisecond)
			start(t, e, "w", "b")
		}()
		stop()
		happened.expect(t, "begin", "end")
		expectStatus(t, e, "a", store.Succeeded)
		expectStatus(t, e, "b", store.Queued)
	})
}

// An engine works once at a time, and may work again.
func TestSecondRunIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, memory.New(), "n", with("w", hears(0)))
		for _, id := range []string{"a", "b"} {
			stop := serve(t, e)
			synctest.Wait()
			if err := e.Run(t.Context()); !errors.Is(err, engine.ErrRunning) {
				t.Errorf("a second Run: %v; want ErrRunning", err)
			}
			start(t, e, "w", id)
			expectEnd(t, e, id, store.Succeeded, "")
			stop()
		}
	})
}

// A store that is closed under a running engine ends it, whatever the engine is doing: with a
// body under way, with a turn, as a standby, alone or among several nodes. The log stays
// short.
func TestAClosedStoreEndsRun(t *testing.T) {
	for _, slots := range []int{1, 4} {
		bodies := map[string]time.Duration{"idle": 0, "with a body": time.Hour, "with a turn": 100 * time.Millisecond}
		for name, body := range bodies {
			for _, standby := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					var happened trace
					var log logs
					s := memory.New(memory.Slots(slots))
					handle := s.Join()
					if standby {
						defer serve(t, newEngine(t, s, "owner", with("w", hears(1))))()
						time.Sleep(time.Minute)
					}
					code := with("w", does(waits(max(body, time.Millisecond), &happened)))
					e := newEngine(t, handle, "n", code, logging(&log))
					end := make(chan error, 1)
					go func() { end <- e.Run(t.Context()) }()
					time.Sleep(time.Minute)
					if body > 0 && !standby {
						start(t, e, "w", "a")
					}
					time.Sleep(99 * time.Millisecond)
					handle.Close()
					closed := time.Now()
					err := <-end
					took := time.Since(closed)
					if !errors.Is(err, store.ErrClosed) || !strings.Contains(err.Error(), "close it when Run has returned") {
						t.Errorf("%d slots, %s, standby %t: Run returns %v", slots, name, standby, err)
					}
					if limit := 10 * time.Second; took > limit { // a standby looks at the nodes when it renews
						t.Errorf("%d slots, %s, standby %t: Run returns after %s; want %s", slots, name, standby, took, limit)
					}
					if lines := log.lines("level=ERROR"); len(lines) > 1 {
						t.Errorf("%d slots, %s, standby %t: the log has %d errors: %q", slots, name, standby, len(lines), lines)
					}
				})
			}
		}
	}
}
