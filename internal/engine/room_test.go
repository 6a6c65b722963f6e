package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// pulse is due so often that it never leaves memory, like a schedule of each second.
type pulse struct {
	tally
	next store.Time
}

func (r *pulse) Tick(now store.Time, w *entity.Writer) {
	for r.next <= now {
		r.next = now.Add(time.Second / 2)
		r.rested++
		r.put(w, "rested", r.rested)
	}
}

func (r *pulse) Wake() store.Time { return r.next }

// TestEntitiesLeaveRoomForRuns: what rests nowhere but in memory is no run of those that MaxRuns bounds.
func TestEntitiesLeaveRoomForRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		e := newEngine(t, s, "n", with("w", does(func(context.Context) string { time.Sleep(time.Minute); return "ok" })),
			func(cfg *engine.Config) {
				cfg.MaxRuns = 1
				cfg.Entities = map[string]engine.MakeRules{tallies: func(*store.Run) entity.Rules { return &pulse{} }}
			})
		defer serve(t, e)()
		if _, err := e.Tell(t.Context(), tallies+"/a", item("add", "1", "1")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		start(t, e, "w", "a")
		time.Sleep(5 * time.Second) // a claim that was under way may have been asked for one run more
		start(t, e, "w", "b")
		time.Sleep(5 * time.Second)
		if stats := e.Stats(); stats.Executing != 1 {
			t.Errorf("%d steps are executing; want one of one run", stats.Executing)
		}
		expectEnd(t, e, "a", store.Succeeded, "ok")
		expectEnd(t, e, "b", store.Succeeded, "ok")
		if stands := standing(t, s, tallies+"/a"); len(stands["rested"]) < 3 { // each half of a second for two minutes
			t.Errorf("meanwhile the entity has done %q", stands)
		}
	})
}
