package stet_test

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

// TestStillReadyIsNotTriedAgainAtOnce has a message come while a run suspends, and
// the claim that would read it wait. Meanwhile the run commits nothing: each turn
// would be answered in the same way. What else happens to it is committed.
func TestStillReadyIsNotTriedAgainAtOnce(t *testing.T) {
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
				entries, err := e.History(t.Context(), "r", stet.HistoryQuery{})
				if err != nil {
					t.Fatal(err)
				}
				late := slices.ContainsFunc(entries, func(x stet.Entry) bool { return x.Location == "beside/late" && x.State == store.Done })
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
