package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/runner"
	"github.com/stet-run/stet/internal/stored"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// once calls RunOnce, and returns after how long it wants to be called again; negative: never.
func once(t *testing.T, e *engine.Engine) time.Duration {
	t.Helper()
	next, err := e.RunOnce(limit(t))
	if err != nil {
		t.Fatal(err)
	}
	if next.IsZero() {
		return -1
	}
	return time.Until(next)
}

// sleeps returns the code that sleeps and then executes a step.
func sleeps(d time.Duration, body func(context.Context) string) code {
	return func(b *runner.Branch) ([]byte, error) {
		if err := b.Sleep(runner.Call{Name: "nap"}, d); err != nil {
			return nil, err
		}
		return do(b, "work", body)
	}
}

func within(t *testing.T, got, want time.Duration) {
	t.Helper()
	if d := got - want; d > 0 || d < -time.Second/2 {
		t.Errorf("to be called again after %s; want %s, less what the call took", got, want)
	}
}

// All that is ready is executed, in any number of runs, with what becomes ready by it; the
// delays of less than a second are waited for, and the others are planned.
func TestRunOnceExecutesWhatIsReady(t *testing.T) {
	for _, slots := range []int{1, 16} {
		synctest.Test(t, func(t *testing.T) {
			ok := func(context.Context) string { time.Sleep(3 * time.Second); return "ok" }
			e := newEngine(t, memory.New(memory.Slots(slots)), "n", with("work", does(ok)),
				with("nap", sleeps(time.Second/2, ok)), with("sleep", sleeps(time.Hour, ok)), with("hear", hears(1)))
			if after := once(t, e); after >= 0 {
				t.Errorf("an empty store wants a call after %s", after)
			}
			for i := range 25 { // more than fit into memory
				start(t, e, "work", fmt.Sprint("work ", i))
			}
			start(t, e, "nap", "nap")
			start(t, e, "hear", "hear")
			if after := once(t, e); after >= 0 {
				t.Errorf("a run that waits for a message wants a call after %s", after)
			}
			start(t, e, "sleep", "sleep")
			send(t, e, "hear", "word")
			begun := time.Now()
			within(t, once(t, e), time.Hour)
			if d := time.Since(begun); d > time.Second {
				t.Errorf("with nothing to execute a call takes %s", d)
			}
			for _, id := range []string{"work 0", "work 24", "nap", "hear"} {
				expectStatus(t, e, id, store.Succeeded)
			}
			expectStatus(t, e, "sleep", store.Suspended)
			within(t, once(t, e), time.Hour)
			if e.Owner() {
				t.Error("a call that has returned holds leases")
			}
			time.Sleep(time.Hour)
			if after := once(t, e); after >= 0 {
				t.Errorf("at the end a call is wanted after %s", after)
			}
			expectStatus(t, e, "sleep", store.Succeeded)
		})
	}
}

// What waits for another attempt is planned like a sleep.
func TestRunOncePlansRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		e := newEngine(t, memory.New(), "n", with("w", func(b *runner.Branch) ([]byte, error) {
			return b.Step(runner.Step{
				Call:   runner.Call{Name: "try"},
				Policy: runner.Policy{Attempts: 3, First: time.Minute, Factor: 2, Max: time.Hour},
				Func: func(context.Context, *runner.Body) runner.BodyResult {
					if tries++; tries < 3 {
						return runner.BodyResult{Failure: &stored.Failure{Code: stored.CodeStep, Message: "away"}}
					}
					return runner.BodyResult{Value: []byte("ok")}
				},
			})
		}))
		start(t, e, "w", "w")
		for want := 1; want <= 3; want++ {
			after := once(t, e)
			if tries != want || (after < 0) != (want == 3) {
				t.Fatalf("%d tries after %d calls, and the next one after %s", tries, want, after)
			}
			time.Sleep(max(after, 0))
		}
		expectEnd(t, e, "w", store.Succeeded, "ok")
	})
}

// Where one process owns the store, RunOnce says so at once, and when to try again.
func TestRunOnceBesideAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		owner, other := newEngine(t, s, "owner"), newEngine(t, s, "other")
		stop := serve(t, owner)
		synctest.Wait()
		if _, err := owner.RunOnce(t.Context()); !errors.Is(err, engine.ErrRunning) {
			t.Errorf("RunOnce beside Run of the same engine: %v; want ErrRunning", err)
		}
		begun := time.Now()
		next, err := other.RunOnce(t.Context())
		if !errors.Is(err, engine.ErrHeld) || time.Since(begun) > time.Second {
			t.Errorf("RunOnce beside an owner: %v after %s; want ErrHeld at once", err, time.Since(begun))
		}
		if d := time.Until(next); d <= 0 || d > 30*time.Second {
			t.Errorf("to be called again after %s; want the rest of the lease", d)
		}
		stop()
		if after := once(t, other); after >= 0 {
			t.Errorf("after the owner's end a call is wanted after %s", after)
		}
	})
}

// Run cannot begin while RunOnce is under way. When ctx ends RunOnce lets bodies end, and
// says that something is left.
func TestRunOnceEndsWithItsContext(t *testing.T) {
	for _, slots := range []int{1, 16} {
		synctest.Test(t, func(t *testing.T) {
			var executed atomic.Int64
			e := newEngine(t, memory.New(memory.Slots(slots)), "n", with("w", func(b *runner.Branch) ([]byte, error) {
				for i := range 5 {
					work := func(context.Context) string {
						executed.Add(1)
						time.Sleep(time.Minute)
						return "ok"
					}
					if _, err := do(b, fmt.Sprint("part ", i), work); err != nil {
						return nil, err
					}
				}
				return nil, nil
			}), func(cfg *engine.Config) { cfg.Grace = time.Hour })
			start(t, e, "w", "w")
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			go func() {
				time.Sleep(time.Second)
				if err := e.Run(ctx); !errors.Is(err, engine.ErrRunning) {
					t.Errorf("Run beside RunOnce: %v; want ErrRunning", err)
				}
			}()
			next, err := e.RunOnce(ctx)
			if err != nil || next.IsZero() || next.After(time.Now()) {
				t.Errorf("it returns %s and %v; want a time that has passed", next, err)
			}
			if n := executed.Load(); n != 2 {
				t.Errorf("%d bodies were executed; want 2", n)
			}
			cancelled, end := context.WithCancel(t.Context())
			end()
			if next, err := e.RunOnce(cancelled); err != nil || next.IsZero() || next.After(time.Now()) {
				t.Errorf("with a context that has ended it returns %s and %v; want a time that has passed", next, err)
			}
			if after := once(t, e); after >= 0 || executed.Load() != 5 {
				t.Errorf("%d bodies were executed, and a call is wanted after %s; want 5, and none", executed.Load(), after)
			}
			expectStatus(t, e, "w", store.Succeeded)
		})
	}
}

// Several nodes: it takes what is free, and comes back when the leases of others may end.
func TestRunOnceBesideOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Slots(16))
		ok := with("w", does(func(context.Context) string { time.Sleep(time.Second); return "ok" }))
		server, function := newEngine(t, s, "server", ok), newEngine(t, s, "function", ok)
		stop := serve(t, server)
		time.Sleep(time.Minute)
		for i := range 40 {
			start(t, function, "w", fmt.Sprint(i))
		}
		for range 3 {
			if after := once(t, function); after < 0 || after > 30*time.Second {
				t.Errorf("beside a node that lives a call is wanted after %s; want the rest of its lease", after)
			}
		}
		for i := range 40 {
			expectEnd(t, function, fmt.Sprint(i), store.Succeeded, "ok")
		}
		stop()
		if after := once(t, function); after >= 0 {
			t.Errorf("alone a call is wanted after %s", after)
		}
	})
}

// The runs of a node that has died are executed by the call that comes back.
func TestRunOnceAfterADeath(t *testing.T) {
	for _, slots := range []int{1, 16} {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New(memory.Slots(slots))
			ok := with("w", does(func(context.Context) string { return "ok" }))
			e := newEngine(t, s, "function", ok)
			dead := store.Node{ID: "dead", Boot: "dead", Build: "b", Groups: []string{store.DefaultGroup, store.SystemGroup}}
			if _, err := s.Register(t.Context(), dead); err != nil {
				t.Fatal(err)
			}
			var shards []store.Shard
			for slot := range slots {
				shards = append(shards, store.Shard{Group: store.DefaultGroup, Slot: slot})
			}
			if _, _, err := s.Acquire(t.Context(), dead, shards, store.Delay(30_000_000)); err != nil {
				t.Fatal(err)
			}
			start(t, e, "w", "1", "2", "3")
			time.Sleep(10 * time.Second)
			next, err := e.RunOnce(t.Context())
			if (slots == 1) != errors.Is(err, engine.ErrHeld) || slots > 1 && err != nil {
				t.Fatal(err)
			}
			if d := time.Until(next); d <= 0 || d > 20*time.Second+time.Millisecond {
				t.Fatalf("to be called again after %s; want the rest of the lease", d)
			}
			time.Sleep(time.Until(next))
			for calls := 0; ; calls++ {
				after := once(t, e)
				if after < 0 {
					break
				}
				if calls > 3 {
					t.Fatalf("it still wants to be called after %s", after)
				}
				time.Sleep(after)
			}
			for _, id := range []string{"1", "2", "3"} {
				expectStatus(t, e, id, store.Succeeded)
			}
		})
	}
}

// A run that cannot be read keeps no call waiting, and is not forgotten.
func TestRunOnceComesBackForWhatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{Store: memory.New()}
		var away atomic.Bool
		away.Store(true)
		g.load = func(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
			if away.Load() {
				return nil, nil, errors.New("the disk is broken")
			}
			return g.Store.Load(ctx, runs)
		}
		e := newEngine(t, g, "n", with("w", does(func(context.Context) string { return "ok" })))
		start(t, e, "w", "w")
		within(t, once(t, e), 30*time.Second)
		away.Store(false)
		if after := once(t, e); after >= 0 {
			t.Errorf("a call is wanted after %s", after)
		}
		expectStatus(t, e, "w", store.Succeeded)
	})
}

// What has outlived its retention is deleted.
func TestRunOnceSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, memory.New(), "n", with("w", does(func(context.Context) string { return "ok" })),
			func(cfg *engine.Config) {
				cfg.Retention = func() []store.Retention {
					return []store.Retention{{Workflow: "w", Status: store.Succeeded, Keep: store.Delay(60_000_000)}}
				}
			})
		start(t, e, "w", "w")
		once(t, e)
		expectStatus(t, e, "w", store.Succeeded)
		time.Sleep(2 * time.Minute)
		once(t, e)
		if _, there, err := e.Get(t.Context(), "w"); there || err != nil {
			t.Errorf("the run is there: %t, %v; want it deleted", there, err)
		}
	})
}
