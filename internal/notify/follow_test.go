package notify_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/notify"
	"github.com/stet-run/stet/store"
)

// TestVerdict: the verdict on a request comes from the turn that this process commits,
// without a read, or is read when another process has changed something.
func TestVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var all sync.WaitGroup
		ask := func(no store.ItemNo, id string) {
			all.Go(func() {
				if v, err := w.waiters.Verdict(t.Context(), 1, no, id); err != nil || string(v) != "yes" {
					t.Errorf("%s: found %q, %v", id, v, err)
				}
			})
			synctest.Wait()
		}
		w.set("there", store.Item{No: 6, State: store.Consumed, Verdict: []byte("yes")})
		ask(6, "there")
		ask(7, "here")
		w.set("late", store.Item{No: 8, State: store.New})
		ask(8, "late")
		// The reader begins with the second one, which so reads again.
		w.expectReads(t, "item there1", "item here1", "item here1", "item late1")
		turn := &store.Turn{Run: 1, Consumed: []store.Consumption{{Item: 9, Verdict: []byte("no")}, {Item: 8}},
			Update: &store.Update{Consumed: []store.Consumption{{Item: 7, Verdict: []byte("no")}}}}
		w.waiters.Committed(turn, store.StillReady) // 7 has no answer yet
		turn.Update.Consumed[0].Verdict = []byte("yes")
		w.waiters.Committed(turn, store.Committed)
		synctest.Wait()
		w.expectReads(t)
		w.set("late", store.Item{No: 8, State: store.Consumed, Verdict: []byte("yes")})
		w.another()
		all.Wait()
		w.expectReads(t, "item late1")
	})
}

// TestNoHintIsLost: an answer that comes after the first read is found by its hint, however
// that falls with the start of the reader and with others that join.
func TestNoHintIsLost(t *testing.T) {
	for range 500 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			begun := time.Now()
			var all, others sync.WaitGroup
			stop, cancel := context.WithCancel(t.Context())
			all.Go(func() {
				if v, err := w.waiters.Verdict(t.Context(), 1, 7, "late"); err != nil || string(v) != "yes" {
					t.Errorf("found %q, %v", v, err)
				}
			})
			for i := range 3 {
				others.Go(func() { _, _ = w.waiters.Verdict(stop, 2, store.ItemNo(i), "never") })
			}
			w.afterRead("late")
			w.set("late", store.Item{No: 7, State: store.Consumed, Verdict: []byte("yes")})
			w.another()
			all.Wait()
			if waited := time.Since(begun); waited > time.Second {
				t.Errorf("waited %v, as long as a poll", waited)
			}
			cancel()
			others.Wait()
		})
		if t.Failed() {
			return
		}
	}
}

// TestAnswer: an answer is read when the run has answered, or changed elsewhere, and at a
// poll; a run that is gone has none.
func TestAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for name, happens := range map[string]func(){
			"answered here": func() {
				w.waiters.Committed(&store.Turn{Run: 1, Answers: make([]store.Consumption, 1)}, store.Committed)
			},
			"ended here":     func() { w.waiters.RunEnded(store.Run{No: 1}) },
			"elsewhere":      func() { w.another() },
			"hint was lost":  func() { time.Sleep(time.Minute) },
			"sole, and lost": func() { w.setSole("a term"); time.Sleep(time.Minute) },
		} {
			w.setSole(nil)
			w.set("u", store.Item{No: 7, State: store.New})
			done := make(chan []byte)
			go func() {
				v, err := w.waiters.Answer(t.Context(), 1, "u")
				if err != nil {
					t.Error(err)
				}
				done <- v
			}()
			synctest.Wait()
			w.set("u", store.Item{No: 7, State: store.Seen, Verdict: []byte("fine")})
			happens()
			if v := <-done; string(v) != "fine" {
				t.Errorf("%s: found %q", name, v)
			}
		}
		if v, err := w.waiters.Answer(t.Context(), 1, "swept"); v != nil || err != nil {
			t.Errorf("found %q, %v", v, err)
		}
		w.set("u", store.Item{No: 7, State: store.New})
		ctx, leave := context.WithTimeout(t.Context(), time.Hour)
		defer leave()
		_, err := w.waiters.Answer(ctx, 1, "u")
		if !errors.Is(err, notify.ErrPending) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("expected that it is pending, found %v", err)
		}
	})
}

// TestFollow: a follower reads at first, when this process has committed something for it,
// and when a look finds its run changed; what happens to other runs costs it nothing.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.run(1, "r", store.Running)
		var reads atomic.Int64
		done := make(chan bool)
		go func() {
			there, err := w.waiters.Follow(t.Context(), 1, func() (bool, error) {
				reads.Add(1)
				return true, nil
			})
			if err != nil {
				t.Error(err)
			}
			done <- there
		}()
		expect := func(n int64) {
			t.Helper()
			time.Sleep(time.Second)
			if found := reads.Swap(0); found != n {
				t.Errorf("expected %d reads, found %d", n, found)
			}
		}
		expect(2) // its own, and one because the first look may have found something new
		w.asked()
		w.another()
		expect(0)
		w.expectReads(t, "feeds[1]", "rows[][1]")
		w.mu.Lock()
		w.feeds = []store.Feed{{Run: 1, Last: 1}}
		w.mu.Unlock()
		w.another()
		expect(1)
		w.waiters.Committed(&store.Turn{Run: 1, Values: make([]store.Setting, 1)}, store.Committed)
		expect(1)
		w.waiters.Committed(&store.Turn{Run: 2, Values: make([]store.Setting, 1)}, store.Committed)
		w.waiters.Committed(&store.Turn{Run: 1}, store.Committed)
		expect(0)

		w.asked()
		for range 5 { // within the pause
			w.another()
			synctest.Wait()
		}
		expect(0)
		if n := len(w.asked()); n != 4 {
			t.Errorf("expected two looks, found %d reads", n)
		}

		w.setSole("a term")
		time.Sleep(time.Minute) // a look: others may have written before
		w.asked()
		time.Sleep(time.Hour)
		w.expectReads(t)

		w.waiters.RunEnded(*w.run(1, "r", store.Succeeded))
		if there := <-done; !there || reads.Load() != 1 {
			t.Errorf("at the end: %t, %d reads", there, reads.Load())
		}
		w.mu.Lock()
		delete(w.runs, "r")
		w.mu.Unlock()
		if there, err := w.waiters.Follow(t.Context(), 1, nil); there || err != nil {
			t.Errorf("a run that is not there: %t, %v", there, err)
		}
	})
}

// TestFollowEnds: reading ends when read wants no more, at an error, and with the context.
func TestFollowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.run(1, "r", store.Running)
		if there, err := w.waiters.Follow(t.Context(), 1, func() (bool, error) { return false, nil }); !there || err != nil {
			t.Errorf("found %t, %v", there, err)
		}
		wrong := errors.New("wrong")
		if _, err := w.waiters.Follow(t.Context(), 1, func() (bool, error) { return true, wrong }); !errors.Is(err, wrong) {
			t.Errorf("expected the error of read, found %v", err)
		}
		cause := errors.New("cause")
		ctx, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(cause) })
		if _, err := w.waiters.Follow(ctx, 1, func() (bool, error) { return true, nil }); !errors.Is(err, cause) {
			t.Errorf("expected the cause, found %v", err)
		}
		if _, err := w.waiters.Follow(ctx, 1, func() (bool, error) { return true, wrong }); !errors.Is(err, cause) {
			t.Errorf("expected the cause, found %v", err)
		}
	})
}
