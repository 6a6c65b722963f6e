package e2e_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestStillReadyIsNotTriedAgainAtOnce sends a message while a run suspends, and delays the claim that would read it.
// Meanwhile the run does not repeat its turn, which would be answered in the same way. Its other changes are committed.
func TestStillReadyIsNotTriedAgainAtOnce(t *testing.T) {
	t.Parallel()
	for name, beside := range map[string]bool{"nothing else": false, "a step ends beside": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := stet.Define("w", func(ctx stet.Context, _ int) (string, error) {
					if beside {
						stet.Go(ctx, "beside", func(ctx stet.Context) (int, error) {
							if err := stet.Sleep(ctx, "nap", 2*time.Second); err != nil {
								return 0, err
							}
							return 0, stet.Do(ctx, "late", func(context.Context) error { return nil })
						})
					}
					return word.Receive(ctx)
				})
				first := memory.New()
				outside := client(t, first.Join(), w)
				g := &gated{Store: first}
				var suspensions, turns atomic.Int64
				claims := make(chan struct{})
				g.beforeCommit = func(b *store.Batch) {
					if turns.Add(int64(len(b.Turns))) == 100 {
						close(claims) // ends what would never end
					}
					if commits(b, store.Suspended) && suspensions.Add(1) == 1 {
						if err := word.Send(t.Context(), outside, "r", "hello"); err != nil {
							t.Error(err)
						}
					}
				}
				g.beforeClaim = func() {
					if suspensions.Load() > 0 {
						<-claims
					}
				}
				e := serve(t, stet.Config{Store: g, Workflows: []stet.Definition{w}, Poll: time.Hour})
				r, err := w.Start(t.Context(), e, 0, stet.ID("r"))
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				if n := suspensions.Load(); n < 1 || n > 3 || !beside && n > 1 {
					t.Errorf("the run has tried to suspend %d times", n)
				}
				entries, err := e.Runs().History(t.Context(), "r", stet.HistoryQuery{})
				if err != nil {
					t.Fatal(err)
				}
				late := slices.ContainsFunc(entries,
					func(x stet.HistoryEntry) bool { return x.Location == "beside/late" && x.State == store.Done })
				if late != beside {
					t.Errorf("the history is %+v", entries)
				}
				if turns.Load() < 100 {
					close(claims)
				}
				if got, err := r.Wait(t.Context()); err != nil || got != "hello" {
					t.Errorf("got %q, %v", got, err)
				}
			})
		})
	}
}

// TestAVerbLeftWhileARunSuspends sends a pause while a run suspends, with a message that the run does not wait for.
// Both reach the engine before the store's answer. The run is paused as soon as the inbox is read again, and does not
// suspend in vain meanwhile.
func TestAVerbLeftWhileARunSuspends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := memory.New()
		outside := client(t, first.Join(), oneWord)
		g := &gated{Store: first}
		var suspensions atomic.Int64
		var answered atomic.Bool
		paused := make(chan error, 1)
		g.beforeCommit = func(b *store.Batch) {
			if !commits(b, store.Suspended) || suspensions.Add(1) > 1 {
				return
			}
			if err := other.Send(t.Context(), outside, "r", "hello"); err != nil {
				t.Error(err)
			}
			go func() {
				_, err := outside.Runs().Pause(t.Context(), "r", stet.Act{})
				paused <- err
			}()
			time.Sleep(time.Second) // claims have brought both
		}
		g.afterCommit = func(b *store.Batch) {
			answered.Store(answered.Load() || commits(b, store.Suspended))
		}
		g.beforeClaim = func() {
			if answered.Load() {
				time.Sleep(time.Minute)
			}
		}
		e := serve(t, stet.Config{Store: g, Workflows: []stet.Definition{oneWord}, Poll: time.Hour, LeaseTTL: time.Hour})
		begin(t, e, oneWord, 0, stet.ID("r"))
		from := time.Now()
		if err := <-paused; err != nil {
			t.Error(err)
		}
		if d := time.Since(from); d > 10*time.Minute {
			t.Errorf("the pause was decided after %v", d)
		}
		if n := suspensions.Load(); n != 1 {
			t.Errorf("the run has tried to suspend %d times", n)
		}
	})
}

// TestNewsOfARunThatHasLeft has a pause come to a run that is executing, and a claim
// find it, but tell of it only when the run has ended: the pause is refused then, and
// not at the next poll.
func TestNewsOfARunThatHasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		w := stet.Define("w", func(ctx stet.Context, _ int) (int, error) {
			return 7, stet.Do(ctx, "s", func(context.Context) error { <-goOn; return nil })
		})
		first := memory.New()
		outside := client(t, first.Join(), w)
		g := &gated{Store: first}
		var e *stet.Engine
		var found atomic.Bool
		g.afterClaim = func(c *store.Claims) {
			news := slices.ContainsFunc(c.Runs, func(r store.Claimed) bool { return !r.New && len(r.Items) > 0 })
			if !news || found.Swap(true) {
				return
			}
			close(goOn)
			if _, err := w.Handle(e, "r").Wait(t.Context()); err != nil {
				t.Error(err)
			}
			synctest.Wait() // it has left memory
		}
		e = serve(t, stet.Config{Store: g, Workflows: []stet.Definition{w}, Poll: time.Hour})
		begin(t, e, w, 0, stet.ID("r"))
		synctest.Wait()
		from := time.Now()
		ok, err := outside.Runs().Pause(t.Context(), "r", stet.Act{})
		refused(t, ok, err, stet.ErrRefused, "already succeeded")
		if d := time.Since(from); d > time.Minute || !found.Load() {
			t.Errorf("the pause was decided after %v, and found by a claim before the end: %t", d, found.Load())
		}
	})
}
