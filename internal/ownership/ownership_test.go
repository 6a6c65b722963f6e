package ownership_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

func shard(slot int) store.Shard { return store.Shard{Group: "g", Slot: slot} }

func lease(slot int, epoch int64) store.Lease {
	return store.Lease{Shard: shard(slot), Epoch: epoch}
}

// slots returns the slots of leases in order.
func slots(leases []store.Lease) []int {
	var list []int
	for _, l := range leases {
		list = append(list, l.Shard.Slot)
	}
	slices.Sort(list)
	return list
}

func TestAnEmptySetHoldsNothing(t *testing.T) {
	var set ownership.Set
	now := set.Now()
	all := store.AllShards()
	if now.Of(shard(1)) != nil || len(now.Leases()) > 0 || len(now.Open()) > 0 || now.AnyOpen(&all) {
		t.Errorf("the zero Set holds %v", now.Leases())
	}
	if held := set.Leave([]store.Shard{shard(1)}, true); len(held) > 0 {
		t.Errorf("of nothing %d shards are to be given back", len(held))
	}
	if lost := set.Lose(); len(lost) > 0 {
		t.Errorf("of nothing %d shards are lost", len(lost))
	}
}

// What a goroutine reads once stays one state, whatever happens to the set meanwhile.
func TestShardsOfOneMomentDoNotChange(t *testing.T) {
	var set ownership.Set
	set.Take(t.Context(), []store.Lease{lease(1, 1), lease(2, 1)})
	before := set.Now()
	first := before.Of(shard(1))
	set.Lose(first)
	if before.Of(shard(1)) != first || len(before.Leases()) != 2 {
		t.Error("what was read before the loss has changed")
	}
	if got := slots(set.Now().Leases()); !slices.Equal(got, []int{2}) {
		t.Errorf("held are the slots %v; want 2", got)
	}
}

// Runs of a draining shard are not claimed any more, but its turns are still committed.
func TestADrainingShardIsHeldAndNotOpen(t *testing.T) {
	var set ownership.Set
	set.Take(t.Context(), []store.Lease{lease(1, 1), lease(2, 1)})
	held := set.Leave([]store.Shard{shard(1), shard(9)}, false)
	set.Close(held...)
	if len(held) != 1 || held[0].ID() != shard(1) || held[0].Must() || !held[0].Draining() || held[0].Lost() {
		t.Fatalf("draining are %v", held)
	}
	now := set.Now()
	if got := slots(now.Open()); !slices.Equal(got, []int{2}) {
		t.Errorf("open are the slots %v; want 2", got)
	}
	if got := slots(now.Leases()); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("held are the slots %v; want 1 and 2", got)
	}
	var only store.ShardSet
	only.Add(shard(1))
	if now.AnyOpen(&only) {
		t.Error("the draining shard counts as open")
	}
	held[0].Cancel()
	if held[0].Context().Err() == nil || held[0].Lost() {
		t.Error("Cancel ends the context of a shard, and not its stay")
	}
}

// A shard that is lost and taken again is another one: what belonged to the former stay
// is over, and a late loss of that one does not touch the new one.
func TestAShardTakenAgainIsAnother(t *testing.T) {
	var set ownership.Set
	set.Take(t.Context(), []store.Lease{lease(1, 1)})
	former := set.Now().Of(shard(1))
	if lost := set.Lose(former); len(lost) != 1 || !former.Lost() || former.Context().Err() == nil {
		t.Fatalf("lost are %v", lost)
	}
	set.Take(t.Context(), []store.Lease{lease(1, 2)})
	later := set.Now().Of(shard(1))
	if later == former || later.Lost() || later.Context().Err() != nil || later.Lease().Epoch != 2 {
		t.Errorf("the shard was taken again as %+v", later.Lease())
	}
	if lost := set.Lose(former); len(lost) > 0 {
		t.Error("a stay has ended twice")
	}
	if set.Now().Of(shard(1)) != later {
		t.Error("the late loss of the former stay has ended the new one")
	}
}

// The loss is to be seen in the shard before the set lets go of it: who finds the shard
// neither lost nor held would take it for another stay's.
func TestALossIsSeenInTheShardFirst(t *testing.T) {
	for range 200 {
		var set ownership.Set
		set.Take(t.Context(), []store.Lease{lease(1, 1)})
		held := set.Now().Of(shard(1))
		var both sync.WaitGroup
		both.Go(func() { set.Lose(held) })
		for set.Now().Of(shard(1)) != nil {
			continue
		}
		if !held.Lost() {
			t.Error("the set has let go of a shard that was not lost")
		}
		both.Wait()
	}
}

func TestTheContextOfAShardEndsWithItsOwner(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var set ownership.Set
	set.Take(ctx, []store.Lease{lease(1, 1)})
	cancel()
	if held := set.Now().Of(shard(1)); held.Context().Err() == nil || held.Lost() {
		t.Error("the context outlives that of the owner")
	}
}

func TestTheInboxIsNeverReadEarlier(t *testing.T) {
	var set ownership.Set
	set.Take(t.Context(), []store.Lease{lease(1, 1)})
	held := set.Now().Of(shard(1))
	if at := held.InboxReadAt(); at != 0 {
		t.Errorf("before the first read it was at %d", at)
	}
	held.InboxRead(20)
	held.InboxRead(10)
	if at := held.InboxReadAt(); at != 20 {
		t.Errorf("it was read at %d; want 20", at)
	}
}

func TestTurnsUnderWay(t *testing.T) {
	var set ownership.Set
	set.Take(t.Context(), []store.Lease{lease(1, 1)})
	held := set.Now().Of(shard(1))
	held.TurnBegun()
	held.TurnBegun()
	held.TurnEnded()
	if !held.Committing() {
		t.Error("of two turns one has ended, and none is under way")
	}
	held.TurnEnded()
	if held.Committing() {
		t.Error("both turns have ended, and one is under way")
	}
	if !held.FirstIn(7) || held.FirstIn(7) || !held.FirstIn(8) {
		t.Error("a batch finds its first turn in a shard once")
	}
}

// A server of several that is away concerns the shards of its lane alone.
func TestEachLaneHasItsShards(t *testing.T) {
	var set ownership.Set
	set.Divide(2, func(slot int) int { return slot % 2 })
	if got := set.Now().In(1).Leases(); len(got) > 0 {
		t.Errorf("of nothing the second lane has %v", got)
	}
	set.Take(t.Context(), []store.Lease{lease(1, 1), lease(2, 1), lease(3, 1)})
	set.Close(set.Now().Of(shard(3)))
	now := set.Now()
	if got := slots(now.Leases()); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("held are %v", got)
	}
	if got := slots(now.In(1).Leases()); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("the second lane has %v", got)
	}
	if got := slots(now.In(1).Open()); !slices.Equal(got, []int{1}) {
		t.Errorf("open in the second lane are %v", got)
	}
	if now.In(0).Of(shard(1)) != nil || now.In(1).Of(shard(1)) != now.Of(shard(1)) {
		t.Error("a shard is in its lane, and in no other")
	}
}

// What could not begin in a closed shard begins when it is opened again, once.
func TestAClosedShardGoesOnWhereItWas(t *testing.T) {
	var set ownership.Set
	set.Take(t.Context(), []store.Lease{lease(1, 1)})
	held, begun := set.Now().Of(shard(1)), 0
	begin := func() { begun++ }
	if held.Defer(begin) {
		t.Error("something is deferred in an open shard")
	}
	set.Close(held)
	if !held.Defer(begin) || begun > 0 {
		t.Error("nothing is deferred in a closed shard")
	}
	set.Open(held)
	set.Close(held)
	set.Open(held)
	if begun != 1 || held.Draining() || len(set.Now().Open()) != 1 {
		t.Errorf("begun %d times; the open leases are %v", begun, set.Now().Open())
	}
}

// TestHandover: a shard goes as soon as nothing is under way in it; one with a long body goes on meanwhile, and
// is cancelled only if it must go. A shard whose lease is lost meanwhile is not released.
func TestHandover(t *testing.T) {
	const window = time.Second
	for _, c := range []struct {
		name     string
		must     bool
		body     time.Duration // that has begun a minute before; 0: none
		young    bool          // it begins with the handover
		lost     bool
		released time.Duration // negative: never
		closed   time.Duration // in total, at most
	}{
		{"rests", false, 0, false, false, 0, 0},
		{"has a short body", false, window / 2, true, false, window / 2, window / 2},
		{"has a body that becomes long", false, 3 * window, true, false, 3 * window, window},
		{"has a long body", false, time.Hour, false, false, time.Hour, 0},
		{"has a long body, and must go", true, time.Hour, false, false, 15 * window, 0},
		{"is lost meanwhile", false, 3 * window, true, true, -1, window},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var set ownership.Set
				set.Take(t.Context(), []store.Lease{lease(1, 1)})
				held := set.Now().Of(shard(1))
				began, released := time.Now(), time.Duration(-1)
				age := time.Minute
				if c.young {
					age = 0
				}
				closed, last := time.Duration(0), began
				g := &ownership.Handover{
					Set: &set, Grace: -1, Last: window, Window: window, Pause: 8 * window,
					Busy: func() map[*ownership.Shard]time.Duration {
						now := time.Now()
						if held.Draining() {
							closed += now.Sub(last)
						}
						last = now
						if since := now.Sub(began); since < c.body && held.Context().Err() == nil {
							return map[*ownership.Shard]time.Duration{held: age + since}
						}
						return nil
					},
					Opened: func([]*ownership.Shard) {},
					Release: func(quiet []*ownership.Shard) {
						if len(quiet) > 0 {
							released = time.Since(began)
						}
					},
				}
				if c.must {
					g.Grace = 15 * window
				}
				if c.lost {
					time.AfterFunc(2*window, func() { set.Lose(held) })
				}
				if stuck := g.Run(t.Context(), set.Leave([]store.Shard{shard(1)}, c.must)); len(stuck) > 0 {
					t.Errorf("%d shards are stuck", len(stuck))
				}
				const slack = 100 * time.Millisecond
				if released < c.released || released > c.released+slack && c.released >= 0 {
					t.Errorf("released after %s, want %s", released, c.released)
				}
				if closed > c.closed+slack {
					t.Errorf("its other runs had to wait for %s, want %s", closed, c.closed)
				}
			})
		})
	}
}

// TestAHandoverTakesOverAnother: a shard that was closed for one handover, as a node has joined, is opened by the one
// that takes over, as this node stops.
func TestAHandoverTakesOverAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = time.Second
		var set ownership.Set
		set.Take(t.Context(), []store.Lease{lease(1, 1)})
		held, began := set.Now().Of(shard(1)), time.Now()
		give := func(must bool) {
			g := ownership.Handover{
				Set: &set, Grace: -1, Last: window, Window: window, Pause: 8 * window,
				Busy: func() map[*ownership.Shard]time.Duration {
					if held.Context().Err() != nil {
						return nil
					}
					return map[*ownership.Shard]time.Duration{held: time.Since(began)}
				},
				Opened: func([]*ownership.Shard) {}, Release: func(quiet []*ownership.Shard) { set.Lose(quiet...) },
			}
			if must {
				g.Grace = 15 * window
			}
			g.Run(t.Context(), set.Leave([]store.Shard{shard(1)}, must))
		}
		var both sync.WaitGroup
		both.Go(func() { give(false) })
		time.Sleep(window / 2)
		if !held.Draining() {
			t.Error("the shard with a young body is not closed")
		}
		both.Go(func() { give(true) })
		time.Sleep(2 * window)
		if held.Draining() {
			t.Error("the shard with an old body is closed")
		}
		both.Wait()
		if took := time.Since(began); took > 16*window || !held.Lost() {
			t.Errorf("after %s the shard is lost: %t", took, held.Lost())
		}
	})
}
