package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// A store that went back is noticed by the next commit, and by the heartbeat of a node that
// commits nothing; then the runs are what they are there, whatever was in memory.
func TestAStoreThatWentBack(t *testing.T) {
	for _, slots := range []int{1, 4} {
		for _, idle := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New(memory.Slots(slots))
				var losses []error
				var e *engine.Engine
				var former int64 // epoch
				e = newEngine(t, s, "n", with("w", hears(2)), func(cfg *engine.Config) {
					cfg.OnLoss = func(err error) {
						losses = append(losses, err)
						if d, _ := s.Describe(t.Context()); e.Owner() && d.Leases[0].Epoch == former { // not taken again
							t.Error("the store is held to nothing, and turns of before may still be written")
						}
					}
					cfg.ParkFor = time.Hour
				})
				defer serve(t, e)()
				time.Sleep(time.Minute) // a member takes the shards in steps
				start(t, e, "w", "a")
				synctest.Wait()
				restore := s.Save()
				d, _ := s.Describe(t.Context())
				former = d.Leases[0].Epoch
				send(t, e, "a", "lost")
				synctest.Wait()
				restore()
				if idle {
					time.Sleep(time.Minute)
					synctest.Wait()
					if len(losses) != 1 {
						t.Fatalf("%d slots: an idle node has noticed %d losses", slots, len(losses))
					}
				}
				send(t, e, "a", "one")
				send(t, e, "a", "two")
				expectEnd(t, e, "a", store.Succeeded, "one two")
				synctest.Wait()
				if len(losses) != 1 || !errors.Is(losses[0], store.ErrWentBack) {
					t.Errorf("%d slots: the losses are %v", slots, losses)
				}
			})
		}
	}
}
