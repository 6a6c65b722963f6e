package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// rarely makes an engine poll so seldom that what happens earlier is due to a hint or a time.
func rarely(cfg *engine.Config) { cfg.Poll = 10 * time.Hour }

// fill puts starts into the store, as a process without the code does.
func fill(t *testing.T, s store.Store, workflow string, n int) (ids []string) {
	t.Helper()
	front := newEngine(t, s, "front")
	for i := range n {
		ids = append(ids, fmt.Sprintf("run%d", i))
	}
	start(t, front, workflow, ids...)
	return ids
}

// No more runs are claimed than memory takes. What a claim has left is claimed when a run
// leaves, without a poll.
func TestNoMoreRunsAreClaimedThanThereIsRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New()
		s := &gated{Store: shared}
		var limits []int
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
			limits = append(limits, req.Limit)
			return s.Store.Claim(ctx, req)
		}
		ids := fill(t, shared.Join(), "w", 5)
		began, goOn := make(chan struct{}, 5), make(chan struct{})
		e := newEngine(t, s, "n", rarely, func(cfg *engine.Config) { cfg.MaxRuns = 2 },
			with("w", does(func(context.Context) string { began <- struct{}{}; <-goOn; return "" })))
		defer serve(t, e)()
		synctest.Wait()
		if len(began) != 2 {
			t.Errorf("%d runs are executed; want 2", len(began))
		}
		close(goOn)
		for _, id := range ids {
			expectEnd(t, e, id, store.Succeeded, "")
		}
		if limits[0] != 2 || slices.Max(limits) != 2 {
			t.Errorf("the claims have the limits %v; want at most 2", limits)
		}
	})
}

// The dispatcher claims at the wake time of a run, be it in memory, or found by a claim.
func TestRunIsClaimedAtItsWakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		sleeps := with("w", func(b *runner.Branch) ([]byte, error) {
			return nil, b.Sleep(runner.Call{Name: "nap"}, 10*time.Minute)
		})
		first := newEngine(t, s, "first", rarely, sleeps)
		stop := serve(t, first)
		synctest.Wait()
		began := time.Now()
		start(t, first, "w", "a", "b")
		expectEnd(t, first, "a", store.Succeeded, "")
		if took := time.Since(began).Round(time.Millisecond); took != 10*time.Minute {
			t.Errorf("the run was claimed after %s; want 10m", took)
		}
		began = time.Now()
		start(t, first, "w", "c")
		time.Sleep(time.Minute)
		stop()
		second := newEngine(t, s.Join(), "second", rarely, sleeps)
		defer serve(t, second)()
		expectEnd(t, second, "c", store.Succeeded, "")
		if took := time.Since(began).Round(time.Millisecond); took != 10*time.Minute {
			t.Errorf("under the second owner the run was claimed after %s; want 10m", took)
		}
	})
}

// A wake time is kept though other nodes do so much that claims because of their hints rest between.
func TestAWakeTimeDoesNotWaitForTheRestBetweenHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &gated{Store: memory.New(memory.Slots(2))}
		busy := make(chan store.Change)
		s.changed = func(ctx context.Context) (store.Change, error) {
			select {
			case change := <-busy:
				return change, nil
			case <-ctx.Done():
				return store.Change{}, ctx.Err()
			}
		}
		e := newEngine(t, s, "n", rarely, with("w", func(b *runner.Branch) ([]byte, error) {
			return nil, b.Sleep(runner.Call{Name: "nap"}, 10*time.Second)
		}))
		defer serve(t, e)()
		synctest.Wait()
		begun := time.Now()
		start(t, e, "w", "a")
		var change store.Change
		for slot := range 2 {
			change.Ready.Add(store.Shard{Group: store.DefaultGroup, Slot: slot})
		}
		for time.Since(begun) < 10*time.Second-time.Millisecond {
			busy <- change
			time.Sleep(700 * time.Microsecond)
		}
		expectEnd(t, e, "a", store.Succeeded, "")
		if late := time.Since(begun) - 10*time.Second; late > time.Millisecond {
			t.Errorf("the run goes on %s after its wake time", late)
		}
	})
}

// What another process starts is claimed on the store's hint; if that is lost, by the next
// poll.
func TestStartOfAnotherProcessIsClaimed(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			shared := memory.New()
			s := &gated{Store: shared}
			if lost {
				s.changed = func(ctx context.Context) (store.Change, error) {
					<-ctx.Done()
					return store.Change{}, ctx.Err()
				}
			}
			front := newEngine(t, shared.Join(), "front")
			e := newEngine(t, s, "n", with("w", hears(0)))
			defer serve(t, e)()
			time.Sleep(500 * time.Millisecond)
			start(t, front, "w", "a")
			synctest.Wait()
			if lost {
				expectStatus(t, e, "a", store.Queued)
				time.Sleep(time.Second)
				synctest.Wait()
			}
			expectStatus(t, e, "a", store.Succeeded)
		})
	}
}

// A claim whose answer is lost may have claimed runs. They are looked for, and loaded.
func TestRunsOfALostClaimAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New()
		s := &gated{Store: shared}
		var lost atomic.Int64
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
			claims, err := s.Store.Claim(ctx, req)
			if len(claims.Runs) > 0 && lost.Add(1) == 1 {
				return store.Claims{}, store.ErrUnavailable
			}
			return claims, err
		}
		// What others execute is not asked for.
		theirs := store.Shard{Group: "other"}
		hour := store.Delay(time.Hour / time.Microsecond)
		got, _, err := shared.Acquire(t.Context(), store.Node{ID: "m", Boot: "m-1"}, []store.Shard{theirs}, hour)
		if err != nil {
			t.Fatal(err)
		}
		b := store.Batch{Node: "m", Boot: "m-1", No: 1, Leases: []store.Lease{got[0].Lease}, Commands: []store.Command{
			{Claim: true, Start: &store.Start{ID: "theirs", Workflow: "w", Shard: theirs}}}}
		if result, err := shared.Commit(t.Context(), b); err != nil || !result.Commands[0].Claimed {
			t.Fatalf("%+v, %v", result, err)
		}
		ids := fill(t, shared.Join(), "w", 3)
		var l logs
		var listed atomic.Int64
		s.list = func(ctx context.Context, f store.Filter) (store.Page, error) {
			page, err := s.Store.List(ctx, f)
			if len(f.IDs) == 0 {
				listed.Add(int64(len(page.Runs)))
			}
			return page, err
		}
		e := newEngine(t, s, "n", logging(&l), with("w", hears(0)))
		defer serve(t, e)()
		for _, id := range ids {
			expectEnd(t, e, id, store.Succeeded, "")
		}
		if n := listed.Load(); n != 3 {
			t.Errorf("%d runs were listed; want the 3 that are claimed here", n)
		}
		if n := len(l.lines("the answer to its claim was lost")); n != 3 {
			t.Errorf("%d runs were found; want 3", n)
		}
	})
}

// A run is claimed by a node that has its code. An executor that has claimed another one
// with a message gives it back.
func TestRunOfAnUnknownWorkflowIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		first := newEngine(t, s, "first", with("w", hears(1)))
		stop := serve(t, first)
		synctest.Wait()
		start(t, first, "w", "a")
		synctest.Wait()
		stop()
		var l logs
		second := newEngine(t, s, "second", logging(&l), with("other", hears(1)))
		stop = serve(t, second)
		synctest.Wait()
		send(t, second, "a", "word")
		time.Sleep(time.Minute)
		expectStatus(t, second, "a", store.Running)
		if n := len(l.lines("a claimed run is given back")); n != 1 {
			t.Errorf("the run was given back %d times; want once", n)
		}
		stop()
		defer serve(t, first)()
		expectEnd(t, first, "a", store.Succeeded, "word")
	})
}

// A claim whose answer is lost has claimed a run that is parked, one that is not in memory, or one that leaves it
// while what was claimed is looked for: each is loaded.
func TestRunIsLoadedWhoseClaimHasNoAnswer(t *testing.T) {
	for what, parkFor := range map[string]time.Duration{
		"it is parked": time.Hour, "it is not in memory": time.Millisecond, "it leaves": 90 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			shared := memory.New()
			s := &gated{Store: shared}
			var lose atomic.Bool
			s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
				claims, err := s.Store.Claim(ctx, req)
				if err == nil && len(claims.Runs) > 0 && lose.Swap(false) {
					return store.Claims{}, store.ErrUnknown
				}
				return claims, err
			}
			s.list = func(ctx context.Context, f store.Filter) (store.Page, error) {
				page, err := s.Store.List(ctx, f)
				if len(f.Claimed) > 0 && what == "it leaves" {
					time.Sleep(35 * time.Second)
				}
				return page, err
			}
			front := newEngine(t, shared.Join(), "front")
			e := newEngine(t, s, "n", with("w", hears(1)), func(cfg *engine.Config) {
				cfg.ParkFor, cfg.LeaseTTL, cfg.Renew = parkFor, 2*time.Minute, time.Second
			})
			defer serve(t, e)()
			start(t, e, "w", "a")
			time.Sleep(time.Minute)
			lose.Store(true)
			send(t, front, "a", "hello")
			synctest.Wait()
			time.Sleep(time.Minute)
			if lose.Load() {
				t.Errorf("%s: no claim was lost", what)
			}
			expectEnd(t, e, "a", store.Succeeded, "hello")
		})
	}
}

// TestAFirstClaimByAClockThatIsAhead: a run that a claim is the first to take has no effects that a terminate
// would have to look for, also if the node's clock is ahead of the store's: its code is not executed.
func TestAFirstClaimByAClockThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New()
		s := &gated{Store: shared}
		var ahead atomic.Bool
		ahead.Store(true)
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
			claims, err := s.Store.Claim(ctx, req)
			if ahead.Load() {
				claims.Now += store.Time(10 * time.Second / time.Microsecond)
			}
			return claims, err
		}
		var executed atomic.Bool
		front := newEngine(t, shared.Join(), "front")
		e := newEngine(t, s, "n", with("w", func(*runner.Branch) ([]byte, error) {
			executed.Store(true)
			return nil, nil
		}))
		defer serve(t, e)()
		time.Sleep(2 * time.Second)
		ahead.Store(false)
		later := newStart(front, "w", "a")
		later.After = store.Delay(time.Hour / time.Microsecond)
		tell(t, front, store.Command{Start: later})
		if ok, reason := request(t, front, "a", store.ItemTerminate, "t"); !ok {
			t.Errorf("the terminate is refused: %s", reason)
		}
		expectStatus(t, front, "a", store.Cancelled)
		if executed.Load() {
			t.Error("expected that the code of a run that was never executed is not for a terminate either")
		}
	})
}

// TestClaimsGoOnWhileACommitHangs: after a claim without an answer what a commit under way may have claimed is
// waited for, and meanwhile other runs are claimed.
func TestClaimsGoOnWhileACommitHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New()
		s := &gated{Store: shared}
		var lose, hangs atomic.Bool
		var claims atomic.Int64
		release := make(chan struct{})
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
			claims.Add(1)
			answer, err := s.Store.Claim(ctx, req)
			if err == nil && len(answer.Runs) > 0 && lose.Swap(false) {
				return store.Claims{}, store.ErrUnknown
			}
			return answer, err
		}
		s.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
			if hangs.Load() {
				<-release
			}
			return s.Store.Commit(ctx, b)
		}
		front := newEngine(t, shared.Join(), "front")
		e := newEngine(t, s, "n", with("w", hears(1)), func(cfg *engine.Config) {
			cfg.LeaseTTL, cfg.Renew = 24*time.Second, time.Second
		})
		defer serve(t, e)()
		start(t, e, "w", "a", "b")
		time.Sleep(time.Minute)
		hangs.Store(true)
		send(t, front, "a", "hello")
		synctest.Wait()
		time.Sleep(time.Second)
		lose.Store(true)
		send(t, front, "b", "hello")
		time.Sleep(5 * time.Second)
		before := claims.Load()
		time.Sleep(10 * time.Second)
		if n := claims.Load() - before; n < 2 || lose.Load() {
			t.Errorf("in 10 s, in which a commit hangs, %d claims are made; want one each few seconds", n)
		}
		hangs.Store(false)
		close(release)
		expectEnd(t, e, "a", store.Succeeded, "hello")
		expectEnd(t, e, "b", store.Succeeded, "hello")
	})
}
