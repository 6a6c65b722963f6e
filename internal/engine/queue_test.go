package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/engine"
	"github.com/stet-run/stet/internal/entity"
	"github.com/stet-run/stet/internal/entity/queue"
	"github.com/stet-run/stet/internal/permit"
	"github.com/stet-run/stet/internal/queues"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/memory"
)

// queueing registers the rules of queues.
func queueing(cfg *engine.Config) { cfg.Entities[permit.Workflow] = queue.New }

// create makes a queue.
func create(t *testing.T, e *engine.Engine, name string, s permit.Settings) {
	t.Helper()
	answer, err := entity.Ask(limit(t), e, permit.EntityID(name), permit.Create, (&permit.Change{Settings: s}).Encode())
	if err != nil || len(answer) == 0 || answer[0] != permit.Yes {
		t.Fatalf("queue %s: %q, %v", name, answer, err)
	}
}

// enqueue starts a run on a queue.
func enqueue(t *testing.T, e *engine.Engine, workflow, id, name string) *store.Start {
	t.Helper()
	s := newStart(e, workflow, id)
	if err := e.Queues().Enqueue(t.Context(), s, permit.Place{Queue: name}); err != nil {
		t.Fatal(err)
	}
	tell(t, e, store.Command{Start: s})
	return s
}

// A run on a queue is executed when it is granted a permit, and gives it back by its end.
func TestRunOnAQueueWaitsForItsPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened trace
		e := newEngine(t, memory.New(), "n", queueing, rarely, with("w", does(waits(time.Hour, &happened))))
		defer serve(t, e)()
		synctest.Wait()
		create(t, e, "q", permit.Settings{Concurrency: 1})
		enqueue(t, e, "w", "a", "q")
		synctest.Wait()
		enqueue(t, e, "w", "b", "q")
		time.Sleep(time.Minute)
		happened.expect(t, "begin")
		expectStatus(t, e, "b", store.Queued)
		expectEnd(t, e, "b", store.Succeeded, "done")
		happened.expect(t, "end", "begin", "end")
	})
}

// A run that holds no permit while it is suspended asks for the next one when it is woken,
// and is held until it has that.
func TestWokenRunIsHeldUntilItHasAPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		s := &gated{Store: memory.New()}
		e := newEngine(t, s, "n", queueing, with("talks", hears(1)),
			with("works", does(func(context.Context) string { <-free; return "" })))
		defer serve(t, e)()
		synctest.Wait()
		create(t, e, "q", permit.Settings{Concurrency: 1, Release: true})
		enqueue(t, e, "talks", "a", "q")
		synctest.Wait()
		expectStatus(t, e, "a", store.Suspended)
		enqueue(t, e, "works", "b", "q")
		synctest.Wait()
		send(t, e, "a", "word")
		time.Sleep(time.Minute)
		run, _, err := e.Get(t.Context(), "a")
		if err != nil || run.Status != store.Suspended || run.Marks&store.Held == 0 {
			t.Errorf("the woken run is %s with the marks %d (%v); want it held", run.Status, run.Marks, err)
		}
		close(free)
		expectEnd(t, e, "a", store.Succeeded, "word")
	})
}

// A start goes to the shard of the group that serves its queue, where several nodes own
// shards; one process that owns all has one group. A queue that was never made is refused.
func TestPlaceOfAStart(t *testing.T) {
	for slots, want := range map[int]string{1: store.DefaultGroup, 4: "eu"} {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New(memory.Slots(slots))
			e := newEngine(t, s, "n", queueing)
			defer serve(t, e)()
			time.Sleep(time.Minute) // a member takes the shards in steps
			create(t, e, "q", permit.Settings{Group: "eu"})
			placed := enqueue(t, e, "w", "a", "q")
			if home := (store.Shard{Group: want, Slot: e.Slot("a")}); placed.Shard != home {
				t.Errorf("with %d slots the start goes to %v; want %v", slots, placed.Shard, home)
			}
			err := e.Queues().Enqueue(t.Context(), newStart(e, "w", "b"), permit.Place{Queue: "missing"})
			if !errors.Is(err, queues.ErrNoQueue) {
				t.Errorf("a missing queue: %v; want ErrNoQueue", err)
			}
		})
	}
}
