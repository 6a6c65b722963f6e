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

// A start claims its run in the same commit, and stamps the build, unless memory is full or
// the code is elsewhere.
func TestStartIsClaimedInItsAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory.New()}
		claimed := map[string]bool{}
		s.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
			for i := range b.Commands {
				c := &b.Commands[i]
				claimed[c.Start.ID] = c.Claim
				if c.Claim != (c.Start.Build == "b") {
					t.Errorf("start of %s: claim %t with the build %q", c.Start.ID, c.Claim, c.Start.Build)
				}
			}
			return s.Store.Commit(ctx, b)
		}
		goOn := make(chan struct{})
		e := newEngine(t, s, "n", func(cfg *engine.Config) { cfg.MaxRuns = 1 },
			with("w", does(func(context.Context) string { <-goOn; return "" })))
		defer serve(t, e)()
		synctest.Wait()
		start(t, e, "elsewhere", "c")
		start(t, e, "w", "a", "b")
		synctest.Wait()
		if !claimed["a"] || claimed["b"] || claimed["c"] {
			t.Errorf("claimed by their starts are %v; want a only", claimed)
		}
		close(goOn)
		expectEnd(t, e, "b", store.Succeeded, "")
		expectStatus(t, e, "c", store.Queued)
	})
}

// The child that a run starts is claimed in the turn that starts it, and its end wakes the
// parent: neither is read from the store.
func TestChildIsClaimedInTheTurnThatStartsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory.New()}
		e := newEngine(t, s, "n", with("child", func(*runner.Branch) ([]byte, error) { return []byte("hello"), nil }),
			with("parent", func(b *runner.Branch) ([]byte, error) {
				child, err := b.StartChild(runner.Child{Call: runner.Call{Name: "child"}, Workflow: "child"})
				if err != nil {
					return nil, err
				}
				return b.AwaitRun(runner.Call{Name: "child"}, child)
			}))
		defer serve(t, e)()
		synctest.Wait()
		start(t, e, "parent", "a")
		expectEnd(t, e, "a", store.Succeeded, "hello")
		s.expectLoads(t, 0)
	})
}

// A start that is not due is not claimed, but at its time.
func TestStartAtATimeIsExecutedThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, memory.New(), "n", rarely, with("w", hears(0)))
		defer serve(t, e)()
		synctest.Wait()
		later := newStart(e, "w", "a")
		later.After = store.Delay((time.Hour).Microseconds())
		began := time.Now()
		tell(t, e, store.Command{Start: later})
		expectEnd(t, e, "a", store.Succeeded, "")
		if took := time.Since(began).Round(time.Millisecond); took != time.Hour {
			t.Errorf("the run was executed after %s; want 1h", took)
		}
	})
}

// Without an executor commands go to the store. With one they wait for the commit before
// theirs: a caller that waits no longer is told that the outcome is unknown.
func TestApplyThatIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory.New()}
		hangs, hung := make(chan struct{}), false
		s.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
			if len(b.Commands) > 0 && !hung {
				hung = true
				<-hangs
			}
			return s.Store.Commit(ctx, b)
		}
		e := newEngine(t, s, "n", with("w", hears(0)))
		start(t, e, "w", "a")
		expectStatus(t, e, "a", store.Queued)
		defer serve(t, e)()
		expectEnd(t, e, "a", store.Succeeded, "")
		go start(t, e, "w", "first")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := e.Apply(ctx, []store.Command{{Start: newStart(e, "w", "b")}})
		if !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the abandoned start: %v; want ErrUnknown", err)
		}
		close(hangs)
		synctest.Wait()
		expectStatus(t, e, "first", store.Succeeded)
		expectStatus(t, e, "b", store.Succeeded)
	})
}

// A message that was sent when the executor was not there yet comes before those that are sent
// after it, though these are posted to the run and that is found by a claim.
func TestMessageSentBeforeTheExecutorComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory.New()}
		arrives, claims, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
		e := newEngine(t, s, "n", with("w", func(b *runner.Branch) ([]byte, error) {
			if _, err := do(b, "work", func(context.Context) string { <-done; return "" }); err != nil {
				return nil, err
			}
			return hears(2)(b)
		}))
		start(t, e, "w", "a")
		var late atomic.Bool
		s.apply = func(ctx context.Context, c []store.Command) ([]store.Answer, store.Time, error) {
			<-arrives
			return s.Store.Apply(ctx, c)
		}
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
			if late.Load() {
				<-claims
			}
			return s.Store.Claim(ctx, req)
		}
		sent := make(chan struct{})
		go func() {
			send(t, e, "a", "first")
			close(sent)
		}()
		synctest.Wait()
		defer serve(t, e)()
		synctest.Wait() // the run executes its step
		late.Store(true)
		close(arrives)
		<-sent
		send(t, e, "a", "second")
		close(done)
		synctest.Wait()
		close(claims)
		expectEnd(t, e, "a", store.Succeeded, "first second")
	})
}

// A message that a transaction of the caller has sent comes before those that are sent after it,
// whether the run is executing or suspended.
func TestMessageOfATransactionComesFirst(t *testing.T) {
	for _, executing := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &gated{Store: memory.New()}
			claims, done := make(chan struct{}), make(chan struct{})
			if !executing {
				close(done)
			}
			e := newEngine(t, s, "n", with("w", func(b *runner.Branch) ([]byte, error) {
				if _, err := do(b, "work", func(context.Context) string { <-done; return "" }); err != nil {
					return nil, err
				}
				return hears(2)(b)
			}))
			var late atomic.Bool
			s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
				if late.Load() {
					<-claims
				}
				return s.Store.Claim(ctx, req)
			}
			defer serve(t, e)()
			start(t, e, "w", "a")
			synctest.Wait()
			late.Store(true)
			first := item("word", "first", "first")
			commands := []store.Command{{RunID: "a", Item: &first}}
			answers, _, err := s.Store.Apply(t.Context(), commands) // as in a transaction: nobody reports it
			if err != nil {
				t.Fatal(err)
			}
			e.SentOutside(commands, answers)
			send(t, e, "a", "second")
			if executing {
				close(done)
			}
			synctest.Wait()
			close(claims)
			expectEnd(t, e, "a", store.Succeeded, "first second")
		})
	}
}

// A workflow is known if this engine has its code, or any process has ever registered it.
// The error names those that are known.
func TestUnknownWorkflowIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		front := newEngine(t, s, "front", with("own", hears(0)))
		if err := front.Workflows().Check(t.Context(), "own"); err != nil {
			t.Error(err)
		}
		err := front.Workflows().Check(t.Context(), "theirs")
		if !errors.Is(err, engine.ErrUnknownWorkflow) || !strings.Contains(err.Error(), "known are: none") {
			t.Errorf("%v; want ErrUnknownWorkflow, and that none is known", err)
		}
		stop := serve(t, newEngine(t, s, "node", with("theirs", hears(0)), with("also", hears(0))))
		synctest.Wait()
		stop()
		if err := front.Workflows().Check(t.Context(), "theirs"); err != nil {
			t.Error(err)
		}
		err = front.Workflows().Check(t.Context(), "typo")
		if !errors.Is(err, engine.ErrUnknownWorkflow) || !strings.Contains(err.Error(), "also, theirs") {
			t.Errorf("%v; want ErrUnknownWorkflow, and the two that are known", err)
		}
	})
}
