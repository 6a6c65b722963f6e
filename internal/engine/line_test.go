package engine_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// TestARunOfAnotherProcessIsAdmitted: a queue that rests learns of a run that another process has put into its line,
// although nobody tells it, and does not claim again and again.
func TestARunOfAnotherProcessIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened trace
		db := memory.New()
		var claims atomic.Int64
		s := &gated{Store: db.Join()}
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
			claims.Add(1)
			return s.Store.Claim(ctx, req)
		}
		e := newEngine(t, s, "n", queueing, with("w", does(waits(time.Minute, &happened))))
		defer serve(t, e)()
		outside := newEngine(t, db, "outside", queueing, with("w", does(waits(time.Minute, &happened))))
		synctest.Wait()
		create(t, e, "q", permit.Settings{Concurrency: 1})
		time.Sleep(time.Minute)
		for _, id := range []string{"a", "b", "c"} {
			enqueue(t, outside, "w", id, "q")
		}
		before := claims.Load()
		time.Sleep(30 * time.Second)
		happened.expect(t, "begin")
		if n := claims.Load() - before; n > 100 {
			t.Errorf("%d claims in 30 s", n)
		}
		for _, id := range []string{"a", "b", "c"} {
			expectEnd(t, e, id, store.Succeeded, "done")
		}
		happened.expect(t, "end", "begin", "end", "begin", "end")
	})
}

// TestAQueueReadsItsLineWhenItIsClaimed: a queue that rests in memory learns of a run of another process by any claim,
// although no hint and no poll comes.
func TestAQueueReadsItsLineWhenItIsClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened trace
		db := memory.New()
		deaf := &gated{Store: db.Join(), changed: func(ctx context.Context) (store.Change, error) {
			<-ctx.Done()
			return store.Change{}, ctx.Err()
		}}
		work := with("w", does(waits(time.Second, &happened)))
		e, outside := newEngine(t, deaf, "n", queueing, rarely, work), newEngine(t, db, "outside", queueing, work)
		defer serve(t, e)()
		create(t, e, "other", permit.Settings{Concurrency: 1})
		time.Sleep(time.Minute) // it leaves memory
		create(t, e, "q", permit.Settings{Concurrency: 1})
		synctest.Wait()
		begun := time.Now()
		enqueue(t, outside, "w", "a", "q")
		enqueue(t, e, "w", "b", "other") // which is claimed for it
		expectEnd(t, e, "a", store.Succeeded, "done")
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("a run of a second took %s", took)
		}
	})
}

// TestAHintIsHeardBesideTheOwnWork: what another process puts into a line is admitted before the next poll, although
// this process has work of its own to claim at the same time.
func TestAHintIsHeardBesideTheOwnWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened trace
		gate := make(chan struct{}, 1) // full: no claim begins
		db := memory.New()
		s := &gated{Store: db.Join()}
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
			gate <- struct{}{}
			defer func() { <-gate }()
			return s.Store.Claim(ctx, req)
		}
		work := with("w", does(waits(time.Second, &happened)))
		holds := with("holds", does(waits(time.Hour, &happened)))
		e := newEngine(t, s, "n", queueing, rarely, work, holds)
		outside := newEngine(t, db, "outside", queueing, work, holds)
		defer serve(t, e)()
		for i := range 40 {
			create(t, e, strconv.Itoa(i), permit.Settings{Concurrency: 1})
		}
		time.Sleep(time.Minute) // they leave memory
		create(t, e, "q", permit.Settings{Concurrency: 2})
		enqueue(t, e, "holds", "holds", "q") // so that the queue stays in memory
		synctest.Wait()
		begun := time.Now()
		for i := range 20 { // in some rounds it hears of its own work first
			id := strconv.Itoa(i)
			gate <- struct{}{}
			enqueue(t, e, "w", "first"+id, id) // the queue is claimed for it
			synctest.Wait()
			enqueue(t, outside, "w", id, "q")
			enqueue(t, e, "w", "second"+id, strconv.Itoa(20+i))
			synctest.Wait()
			<-gate
			expectEnd(t, e, id, store.Succeeded, "done")
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("twenty runs of a second, one after the other, took %s", took)
		}
	})
}

// TestAPermitThatAnotherProcessGivesBackIsGranted before the next poll: the act that ends the run hints the queue's
// shard, unless the process has the queue itself.
func TestAPermitThatAnotherProcessGivesBackIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New(memory.Slots(16))
		var did [2]trace
		var hinted [2]atomic.Int64
		var nodes [2]*engine.Engine
		for i := range nodes {
			s := &gated{Store: db.Join()}
			s.commit = func(ctx context.Context, b store.Batch) (store.BatchResult, error) {
				for _, turn := range b.Turns {
					hinted[i].Add(int64(len(turn.Hints)))
				}
				return s.Store.Commit(ctx, b)
			}
			nodes[i] = newEngine(t, s, strconv.Itoa(i), queueing, rarely, with("w", does(waits(time.Second, &did[i]))))
			defer serve(t, nodes[i])()
		}
		time.Sleep(time.Minute) // they share the shards
		create(t, nodes[0], "q", permit.Settings{Concurrency: 1, Group: store.DefaultGroup})
		begun := time.Now()
		for i := range 20 {
			enqueue(t, nodes[0], "w", strconv.Itoa(i), "q")
		}
		for i := range 20 {
			expectEnd(t, nodes[0], strconv.Itoa(i), store.Succeeded, "done")
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("twenty runs of a second, one after the other, took %s", took)
		}
		owner := 0
		if hinted[owner].Load() > 0 {
			owner = 1
		}
		other := int64(len(did[1-owner].all) / 2) // each run begins and ends
		if hinted[owner].Load() > 0 || other == 0 || hinted[1-owner].Load() != other {
			t.Errorf("the other node has executed %d runs, and sent %d hints; the queue's node sent %d", other,
				hinted[1-owner].Load(), hinted[owner].Load())
		}
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
		stop := serve(t, e)
		create(t, e, "q", permit.Settings{Concurrency: 1})
		stop()
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
