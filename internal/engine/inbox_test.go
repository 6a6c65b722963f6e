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

// A message that reached the store before a deadline wins, though this process hears of it
// only by the claim that is made because of the deadline.
func TestMessageBeforeADeadlineWins(t *testing.T) {
	for _, want := range []string{"word", "too late"} {
		synctest.Test(t, func(t *testing.T) {
			shared := memory.New()
			s := &gated{Store: shared}
			s.changed = func(ctx context.Context) (store.Change, error) { // no hints
				<-ctx.Done()
				return store.Change{}, ctx.Err()
			}
			e := newEngine(t, s, "n", rarely, with("w", func(b *runner.Branch) ([]byte, error) {
				// Beside a step that is executing: the run is in memory, and not suspended.
				b.Go(runner.Call{Name: "busy"}, func(b *runner.Branch) (any, error) {
					return do(b, "work", func(ctx context.Context) string { <-ctx.Done(); return "" })
				})
				messages, err := b.Receive(runner.Receive{
					Call: runner.Call{Name: "word"}, Names: []string{"word"}, Max: 1, Deadline: b.Now().Add(time.Minute),
				})
				if err != nil {
					return []byte("too late"), nil
				}
				return messages[0].Value, nil
			}))
			defer serve(t, e)()
			front := newEngine(t, shared.Join(), "front")
			synctest.Wait()
			start(t, e, "w", "a")
			time.Sleep(time.Minute - time.Millisecond)
			if want == "word" {
				send(t, front, "a", "word")
			}
			expectEnd(t, e, "a", store.Succeeded, want)
		})
	}
}

// A verb that is for runs at rest is refused while the run is executing. A pause waits for
// the bodies to end, and what arrives meanwhile is kept.
func TestVerbsOnAnExecutingRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened trace
		talk := hears(1)
		e := newEngine(t, memory.New(), "n", with("w", func(b *runner.Branch) ([]byte, error) {
			if _, err := do(b, "work", waits(time.Minute, &happened)); err != nil {
				return nil, err
			}
			return talk(b)
		}))
		defer serve(t, e)()
		synctest.Wait()
		start(t, e, "w", "a")
		synctest.Wait()
		if accepted, reason := request(t, e, "a", store.ItemResume, "1"); accepted || reason == "" {
			t.Errorf("a resume of a run that is executing: %t, %q", accepted, reason)
		}
		go send(t, e, "a", "word")
		if accepted, reason := request(t, e, "a", store.ItemPause, "2"); !accepted {
			t.Errorf("the pause is refused: %s", reason)
		}
		happened.expect(t, "begin", "end")
		time.Sleep(time.Minute)
		if accepted, reason := request(t, e, "a", store.ItemResume, "3"); !accepted {
			t.Errorf("the resume is refused: %s", reason)
		}
		expectEnd(t, e, "a", store.Succeeded, "word")
		happened.expect(t)
	})
}
