package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// claiming counts claims.
type claiming struct {
	store.Store
	claims atomic.Int64
}

func (c *claiming) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	c.claims.Add(1)
	return c.Store.Claim(ctx, req)
}

// TestARunOfAnotherProcessIsAdmitted: a queue that rests learns of a run that another process has put into its line,
// although nobody tells it, and does not claim again and again.
func TestARunOfAnotherProcessIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened trace
		db := memory.New()
		counted := &claiming{Store: db.Join()}
		e := newEngine(t, counted, "n", queueing, with("w", does(waits(time.Minute, &happened))))
		defer serve(t, e)()
		outside := newEngine(t, db, "outside", queueing, with("w", does(waits(time.Minute, &happened))))
		synctest.Wait()
		create(t, e, "q", permit.Settings{Concurrency: 1})
		time.Sleep(time.Minute)
		for _, id := range []string{"a", "b", "c"} {
			enqueue(t, outside, "w", id, "q")
		}
		before := counted.claims.Load()
		time.Sleep(30 * time.Second)
		happened.expect(t, "begin")
		if n := counted.claims.Load() - before; n > 100 {
			t.Errorf("%d claims in 30 s", n)
		}
		for _, id := range []string{"a", "b", "c"} {
			expectEnd(t, e, id, store.Succeeded, "done")
		}
		happened.expect(t, "end", "begin", "end", "begin", "end")
	})
}

// TestMoreRunsWaitThanAreRead: where a look does not read all that wait, the queue looks again when few are left, and
// not only at the next poll.
func TestMoreRunsWaitThanAreRead(t *testing.T) {
	engine.ReadsOfALine(t, 4)
	synctest.Test(t, func(t *testing.T) {
		var happened trace
		db := memory.New()
		e := newEngine(t, db.Join(), "n", queueing, rarely, with("w", does(waits(time.Second, &happened))))
		outside := newEngine(t, db, "outside", queueing, with("w", does(waits(time.Second, &happened))))
		create := func(stop func()) {
			create(t, e, "q", permit.Settings{Concurrency: 1})
			stop()
		}
		create(serve(t, e))
		ids := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
		for _, id := range ids {
			enqueue(t, outside, "w", id, "q")
		}
		defer serve(t, e)()
		begun := time.Now()
		for _, id := range ids {
			expectEnd(t, e, id, store.Succeeded, "done")
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("ten runs of a second took %s", took)
		}
	})
}
