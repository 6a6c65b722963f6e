package notify_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stet-run/stet/internal/notify"
	"github.com/stet-run/stet/store"
)

func closed(ch <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// TestChangesAreBroadcastByKind: each kind of change has its channel, and the shards of
// ready runs are kept until they are taken.
func TestChangesAreBroadcastByKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c := w.changes
		defer c.Listen()()
		answered, nodes := c.Answered(), c.Nodes()
		_, ready := c.TakeReady(0)
		w.change <- store.Change{Answered: true}
		if !closed(answered) || closed(nodes) || closed(ready) {
			t.Error("an answer")
		}
		answered = c.Answered()
		w.change <- store.Change{Nodes: true}
		if closed(answered) || !closed(nodes) || closed(ready) {
			t.Error("nodes")
		}
		var one, two store.ShardSet
		one.Add(store.Shard{Group: "g", Slot: 1})
		two.Add(store.Shard{Group: "g", Slot: 2})
		w.change <- store.Change{Ready: one}
		w.change <- store.Change{Ready: two}
		if !closed(ready) {
			t.Error("ready runs")
		}
		both := store.Change{Ready: one}
		both.Add(store.Change{Ready: two})
		shards, ready := c.TakeReady(0)
		if shards != both.Ready || closed(ready) {
			t.Errorf("expected the shards of both changes, found %v", shards)
		}
		if shards, _ = c.TakeReady(0); shards != (store.ShardSet{}) {
			t.Error("the same shards again")
		}
	})
}

// TestEachTakerIsToldOfReadyRuns: what one has taken is still there for the other.
func TestEachTakerIsToldOfReadyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.changes.Listen()()
		var one store.ShardSet
		one.Add(store.Shard{Group: "g", Slot: 1})
		for taker := range 2 {
			w.changes.TakeReady(taker)
		}
		w.change <- store.Change{Ready: one}
		synctest.Wait()
		for taker := range 2 {
			if shards, _ := w.changes.TakeReady(taker); shards != one {
				t.Errorf("taker %d found %v", taker, shards)
			}
		}
	})
}

// TestChangesAskWhileSomebodyListens: the store is asked by one goroutine, which is gone
// when the last listener is; after an error it is not asked again.
func TestChangesAskWhileSomebodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, asking := 0, 0
		fails := false
		c := notify.NewChanges(func(ctx context.Context) (store.Change, error) {
			if asked++; fails {
				return store.Change{}, errors.New("no hints")
			}
			asking++
			<-ctx.Done()
			asking--
			return store.Change{}, ctx.Err()
		})
		expect := func(total, now int) {
			t.Helper()
			synctest.Wait()
			if asked != total || asking != now {
				t.Errorf("expected %d calls and %d under way, found %d and %d", total, now, asked, asking)
			}
		}
		expect(0, 0)
		first, second := c.Listen(), c.Listen()
		expect(1, 1)
		first()
		first() // again: nothing
		expect(1, 1)
		second()
		if asking != 0 {
			t.Error("the last listener has not waited")
		}
		third := c.Listen()
		expect(2, 1)
		third()
		fails = true
		fourth := c.Listen()
		expect(3, 0)
		fourth()
	})
}
