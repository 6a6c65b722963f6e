package notify_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/store"
)

// TestWaitsTogether: the first call of Wait reads at once, those that come meanwhile are
// served together, and each gets its own run.
func TestWaitsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.takes = time.Second
		var all sync.WaitGroup
		ask := func(id string) {
			if id != "missing" {
				w.run(1, id, store.Succeeded)
			}
			all.Go(func() {
				run, ok, err := w.waiters.Wait(t.Context(), id, 0)
				if err != nil || ok != (id != "missing") || ok && run.ID != id {
					t.Errorf("%s: found %+v, %t, %v", id, run, ok, err)
				}
			})
		}
		ask("first")
		synctest.Wait()
		for range 2 {
			ask("a")
			ask("missing")
		}
		for i := range 100 {
			ask(fmt.Sprint("run-", i))
		}
		begun := time.Now()
		all.Wait()
		if took := time.Since(begun); took != 3*time.Second || len(w.asked()) != 3 {
			t.Errorf("expected three reads one after the other, in %s found %q", took, w.asked())
		}
	})
}

// TestWaitsThatFail: what is wrong with one of several runs does not reach the others, and
// a call that is cancelled leaves nobody waiting.
func TestWaitsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.takes, w.bad = time.Second, "bad"
		var all sync.WaitGroup
		impatient, leave := context.WithCancel(t.Context())
		ask := func(ctx context.Context, id string) {
			w.run(1, id, store.Succeeded)
			all.Go(func() {
				run, ok, err := w.waiters.Wait(ctx, id, 0)
				switch {
				case ctx == impatient:
					if !errors.Is(err, context.Canceled) {
						t.Errorf("%s: expected the context's error, found %v", id, err)
					}
				case id == "bad":
					if !errors.Is(err, errUnreadable) {
						t.Errorf("%s: expected that it is unreadable, found %v", id, err)
					}
				case err != nil || !ok || run.ID != id:
					t.Errorf("%s: found %+v, %t, %v", id, run, ok, err)
				}
			})
			synctest.Wait()
		}
		ask(t.Context(), "first")
		ask(impatient, "x")
		for _, id := range []string{"a", "bad", "c"} {
			ask(t.Context(), id)
		}
		leave()
		synctest.Wait()
		ask(impatient, "y") // leaves at once
		all.Wait()
		w.expectReads(t, "whole[first][]", "whole[a bad c][]", "whole[a][]", "whole[bad][]", "whole[c][]")
	})
}

// TestEndsHere: a run in memory is not read before a poll interval has passed, and its end
// is delivered to all that wait for it.
func TestEndsHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.memory["r"] = true
		w.run(5, "r", store.Running)
		var all sync.WaitGroup
		wait := func(ctx context.Context) {
			all.Go(func() {
				run, ok, err := w.waiters.Wait(ctx, "r", 5)
				if ctx == t.Context() && (err != nil || !ok || run.Status != store.Failed) {
					t.Errorf("found %+v, %t, %v", run, ok, err)
				}
			})
		}
		short, leave := context.WithCancel(t.Context())
		wait(t.Context())
		wait(short)
		time.Sleep(59 * time.Second)
		w.expectReads(t)
		leave()
		time.Sleep(90 * time.Second)
		w.expectReads(t, "whole[r][]", "whole[r][]") // at the poll and one interval later
		wait(t.Context())
		synctest.Wait()
		run := *w.run(5, "r", store.Failed)
		w.waiters.RunEnded(run)
		all.Wait()
		w.waiters.RunEnded(run) // nobody waits
		w.expectReads(t)
	})
}

// TestTheEndOfAFormerRunDoesNotCount: the end of a run that another one has replaced may be told late. Neither a caller
// that knows the number of the later one takes it for its end, nor one that knows the ID alone.
func TestTheEndOfAFormerRunDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.memory["r"] = true
		w.run(7, "r", store.Running)
		var all sync.WaitGroup
		for _, from := range []store.RunNo{7, 0} {
			all.Go(func() {
				if run, ok, err := w.waiters.Wait(t.Context(), "r", from); err != nil || !ok || run.No != 7 {
					t.Errorf("from %d: found %+v, %t, %v", from, run, ok, err)
				}
			})
		}
		synctest.Wait()
		w.waiters.RunEnded(store.Run{No: 5, ID: "r", Status: store.Succeeded})
		synctest.Wait()
		w.waiters.RunEnded(*w.run(7, "r", store.Succeeded))
		all.Wait()
		w.expectReads(t, "rows[r][]") // by the one without a number
	})
}

// TestEndsElsewhere: a change elsewhere costs one read for all runs, and one more for
// those that have ended; a lost hint costs one poll interval.
func TestEndsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var all sync.WaitGroup
		for i, id := range []string{"a", "b", "c", "d"} {
			w.run(store.RunNo(i+1), id, store.Suspended)
			all.Go(func() {
				run, ok, err := w.waiters.Wait(t.Context(), id, 0)
				over := run.Status.Terminal() || run.Status == store.Stalled
				if err != nil || ok != (id != "c") || ok && !over {
					t.Errorf("found %+v, %t, %v", run, ok, err)
				}
			})
			synctest.Wait()
		}
		w.expectReads(t, "whole[a][]", "whole[b][]", "whole[c][]", "whole[d][]")
		w.another()
		synctest.Wait()
		w.expectReads(t, "rows[a b c d][]")

		w.run(2, "b", store.Stalled)
		w.mu.Lock()
		delete(w.runs, "c")
		w.mu.Unlock()
		w.another()
		synctest.Wait()
		w.expectReads(t, "rows[a b c d][]", "whole[b c][]")

		w.run(1, "a", store.Cancelled)
		w.setSole("a term")
		w.another() // its own process commits all ends
		synctest.Wait()
		w.expectReads(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		w.expectReads(t, "whole[a d][]")

		w.setSole(nil)
		w.run(4, "d", store.Succeeded)
		w.another()
		all.Wait()
		w.expectReads(t, "whole[d][]") // one alone is read with its values at once
	})
}

// TestReaderStops: the reader ends with the last call, and a read that it has not finished
// is made for a call that comes meanwhile.
func TestReaderStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.takes = time.Second
		for _, id := range []string{"a", "b"} {
			w.run(1, id, store.Succeeded)
		}
		short, leave := context.WithTimeout(t.Context(), time.Second/2)
		defer leave()
		var all sync.WaitGroup
		all.Go(func() {
			if _, _, err := w.waiters.Wait(short, "a", 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("expected the deadline, found %v", err)
			}
		})
		time.Sleep(3 * time.Second / 4)
		if run, ok, err := w.waiters.Wait(t.Context(), "b", 0); err != nil || !ok || run.ID != "b" {
			t.Errorf("found %+v, %t, %v", run, ok, err)
		}
		all.Wait()
	})
}

// TestWaitsGoOnWhileTheStoreIsAway: each kind of call reads again after a poll interval, until the store answers or its
// context ends. Then the error says why it has waited.
func TestWaitsGoOnWhileTheStoreIsAway(t *testing.T) {
	for name, call := range map[string]func(context.Context, *world) error{
		"wait": func(ctx context.Context, w *world) error {
			_, _, err := w.waiters.Wait(ctx, "r", 0)
			return err
		},
		"follow": func(ctx context.Context, w *world) error {
			_, err := w.waiters.Follow(ctx, 1, func() (bool, error) { return true, nil })
			return err
		},
		"verdict": func(ctx context.Context, w *world) error {
			_, err := w.waiters.Verdict(ctx, 1, 5, "item")
			return err
		},
	} {
		for _, ends := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.run(1, "r", store.Succeeded)
				w.items["item"] = store.Item{No: 5, ID: "item", State: store.Consumed, Verdict: []byte("v")}
				w.away = 3
				ctx := t.Context()
				if ends {
					w.away = 1000
					limited, cancel := context.WithTimeout(ctx, 10*time.Minute+30*time.Second)
					defer cancel()
					ctx = limited
				}
				begun := time.Now()
				err := call(ctx, w)
				switch took := time.Since(begun); {
				case !ends && (err != nil || took > 10*time.Minute):
					t.Errorf("%s: after %s: %v", name, took, err)
				case ends && !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("%s: %v; want that the context has ended", name, err)
				case ends && name != "verdict" && !errors.Is(err, store.ErrUnavailable):
					t.Errorf("%s: %v; want that the store is away, too", name, err)
				}
			})
		}
	}
}
