package committer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/committer"
	"github.com/stet-run/stet/store"
)

// TestAStoreThatWentBack: each batch names the last one that was acknowledged. If the store
// does not have that one the shards are lost once, turns are fenced, commands are written
// again, and the store is held to no batch of before.
func TestAStoreThatWentBack(t *testing.T) {
	for _, inline := range []bool{true, false} {
		t.Run(fmt.Sprint("inline ", inline), func(t *testing.T) {
			test(t, func(t *testing.T, k *counter) {
				last := func(want int64) {
					t.Helper()
					if b := k.batch(); b.Last != want {
						t.Fatalf("batch %d names batch %d as the last one; want %d", b.No, b.Last, want)
					}
				}
				k.submit(1)
				last(0)
				k.ok()
				k.wantAnswered(1)
				k.submit(2)
				last(1)
				if !inline {
					k.submit(3)
					k.command(store.Command{RunID: "r"})
					k.ok()
					last(2)
				}
				gone := fmt.Errorf("%w: as the test says", store.ErrWentBack)
				k.answers <- reply{err: gone}
				if inline {
					last(1) // the committer's goroutine tries again
					k.answers <- reply{err: gone}
					k.wantAnswered(1, "2 fenced")
				} else {
					last(0)
					k.ok()
					k.wantAnswered(1, 2, "3 fenced", "r 1")
				}
				if len(k.losses) != 1 {
					t.Errorf("the loss was reported %d times", len(k.losses))
				}
				k.set.Take(context.Background(), []store.Lease{{Shard: store.Shard{Group: "g"}, Epoch: 2}})
				k.h = k.set.Now().Of(store.Shard{Group: "g"})
				k.submit(4)
				b := k.batch()
				k.ok()
				k.submit(5)
				last(b.No)
				k.ok()
				time.Sleep(time.Minute)
				if len(k.losses) != 1 {
					t.Errorf("the loss was reported %d times", len(k.losses))
				}
			})
		})
	}
}

// TestALossIsNewsOnce: who else notices the loss, by a heartbeat, is told that it is known.
func TestALossIsNewsOnce(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		k.submit(1)
		k.batch()
		k.ok()
		k.submit(2)
		k.batch() // on its way while the loss is noticed
		n, drops := &k.numbers, 0
		drop := func() {
			if drops++; n.Acknowledged() != 1 {
				t.Error("the store was held to no batch before the shards were dropped")
			}
		}
		if n.Acknowledged() != 1 || n.Lost(0, drop) || !n.Lost(1, drop) || n.Lost(1, drop) || n.Acknowledged() != 0 ||
			drops != 1 {
			t.Errorf("a loss is not news once; %d drops", drops)
		}
		k.ok() // an answer of before
		k.submit(3)
		if b := k.batch(); b.Last != 0 {
			t.Errorf("after the loss a batch names %d", b.Last)
		}
		k.ok()
		k.wantAnswered(1, 2, 3)
		var none committer.Numbers
		if none.Lost(0, nil) {
			t.Error("there was nothing to lose")
		}
	})
}

// TestALossIsKnownWhenTheShardsAreDropped: while one goroutine drops the shards, another that
// notices the same loss waits for it. If it went on, it would write turns of before in a batch
// that names none.
func TestALossIsKnownWhenTheShardsAreDropped(t *testing.T) {
	test(t, func(t *testing.T, k *counter) {
		k.submit(1)
		k.batch()
		k.ok()
		k.wantAnswered(1)
		dropped := make(chan struct{})
		go k.numbers.Lost(1, func() {
			k.submit(2)
			for range 2 { // written by who submits, then by the committer
				if b := k.batch(); b.Last != 1 {
					t.Errorf("before the shards are dropped a batch names %d as the last one; want 1", b.Last)
				}
				k.answers <- reply{err: fmt.Errorf("%w: as the test says", store.ErrWentBack)}
			}
			time.Sleep(time.Minute)
			for h := range k.set.Now().All() {
				k.set.Lose(h)
			}
			close(dropped)
		})
		time.Sleep(time.Second)
		k.submit(3) // while batch 2 is answered
		<-dropped
		time.Sleep(time.Hour)
		if len(k.losses) != 0 {
			t.Errorf("the loss was reported again: %v", k.losses)
		}
		k.wantAnswered(1, "2 fenced", "3 fenced")
	})
}
