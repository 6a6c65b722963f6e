package e2e_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet"
	"github.com/stet-run/stet/store"
)

var (
	caseUpdate = stet.Update[int, int]("case-update")
	caseTopic  = stet.Topic[int]{Name: "case-topic"}
)

// TestCaseWithin: a case with a deadline of its own wins when that is over, with
// ErrTimeout, and what was sent in time wins over it.
func TestCaseWithin(t *testing.T) {
	t.Parallel()
	forEachStoreInABubble(t, func(t *testing.T, cfg stet.Config, _ *gated, _ store.Store) {
		type won struct {
			Index   int
			Timeout bool
			Value   int
			Took    time.Duration
		}
		w := stet.Define("case-within", func(ctx stet.Context, kind string) (won, error) {
			begun := stet.Now(ctx)
			var value int
			var request *stet.Request[int, int]
			var c stet.Case
			switch kind {
			case "message":
				c = counter.Case(&value, stet.Within(time.Hour))
			case "update":
				c = caseUpdate.Case(&request, stet.Within(time.Hour))
			case "topic":
				c = caseTopic.Case(&value, stet.Within(time.Hour))
			}
			other, err := stet.NewPromise[int](ctx, "other")
			if err != nil {
				return won{}, err
			}
			i, err := stet.Select(ctx, other.Case(), c, stet.AfterDelay("late", 2*time.Hour))
			timeout := errors.Is(err, stet.ErrTimeout)
			if err != nil && !timeout {
				return won{}, err
			}
			if request != nil {
				value = request.Value
				if err := request.Answer(ctx, value); err != nil {
					return won{}, err
				}
			}
			took := stet.Now(ctx).Sub(begun)
			if _, err := say(ctx, "go on", ""); err != nil {
				return won{}, err
			}
			return won{i, timeout, value, took.Truncate(time.Hour)}, nil
		})
		cfg.Workflows = []stet.Definition{w}
		e := serve(t, cfg)
		ctx := testContext(t)
		for _, kind := range []string{"message", "update", "topic"} {
			idle, sent := begin(t, e, w, kind, stet.ID(kind+"-idle")), begin(t, e, w, kind, stet.ID(kind+"-sent"))
			waitStatus(t, e, idle.ID(), store.Suspended)
			waitStatus(t, e, sent.ID(), store.Suspended)
			var err error
			switch kind {
			case "message":
				err = counter.Send(ctx, e, sent.ID(), 7)
			case "update":
				_, err = caseUpdate.Call(ctx, e, sent.ID(), 7)
			case "topic":
				continue // both wait for the same events; see below
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := sent.Wait(ctx); err != nil || got != (won{Index: 1, Value: 7}) {
				t.Errorf("%s that was sent in time: the code sees %+v, %v", kind, got, err)
			}
		}
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		for _, id := range []string{"message-idle", "update-idle", "topic-idle", "topic-sent"} {
			got, err := w.Handle(e, id).Wait(testContext(t))
			if want := (won{Index: 1, Timeout: true, Took: time.Hour}); err != nil || got != want {
				t.Errorf("%s: the code sees %+v, %v; want %+v", id, got, err, want)
			}
		}
		late := begin(t, e, w, "topic")
		if _, err := caseTopic.Publish(testContext(t), e, 9); err != nil {
			t.Fatal(err)
		}
		if got, err := late.Wait(testContext(t)); err != nil || got != (won{Index: 1, Value: 9}) {
			t.Errorf("an event that was published in time: the code sees %+v, %v", got, err)
		}
		for _, id := range []string{"message-idle", "update-idle", "topic-idle"} {
			replays(t, e, id)
		}
	})
}
