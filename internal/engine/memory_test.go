package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// newTestMemory returns the memory of an executor that holds one shard.
func newTestMemory(t *testing.T, cfg Config) (*memory, *ownership.Shard) {
	x := &executor{e: &Engine{cfg: cfg}}
	x.memory, x.dispatcher = newMemory(x), newDispatcher(x)
	x.shards.Take(t.Context(), []store.Lease{{Shard: store.Shard{Group: "g"}}})
	return x.memory, x.shards.Now().Of(store.Shard{Group: "g"})
}

// hinted reports whether the dispatcher was woken since the last call.
func hinted(m *memory) bool {
	select {
	case <-m.x.dispatcher.wake:
		return true
	default:
		return false
	}
}

// Memory has at most one activation of a run, and none of a shard in which nothing begins.
func TestMemoryHasOneActivationOfARun(t *testing.T) {
	m, h := newTestMemory(t, Config{MaxRuns: 10})
	a := m.expect(h, 1)
	if a == nil || m.expect(h, 1) != nil || m.find(1) != a {
		t.Fatal("a run is in memory twice, or not at all")
	}
	a.gone = true
	later := m.expect(h, 1)
	if later == nil || later == a || later.number <= a.number {
		t.Error("a run whose activation is gone does not come into memory again")
	}
	m.remove(a) // the former one: it is not there any more
	if m.find(1) != later {
		t.Error("the end of a former activation has removed the later one")
	}
	m.x.shards.Drain([]store.Shard{h.ID()})
	if m.expect(h, 2) != nil {
		t.Error("a run of a draining shard has come into memory")
	}
	m.x.shards.Lose(h)
	if m.expect(h, 3) != nil {
		t.Error("a run of a lost shard has come into memory")
	}
}

// Parked runs make room for others, and the end of one wakes a claim that was cut.
func TestRoomInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, h := newTestMemory(t, Config{MaxRuns: 2, MaxParked: 5, ParkFor: time.Hour})
		first, second := m.expect(h, 1), m.expect(h, 2)
		if m.room() != 0 {
			t.Errorf("there is room for %d; want 0", m.room())
		}
		m.park(first, 1)
		if m.room() != 1 {
			t.Errorf("beside a parked run there is room for %d; want 1", m.room())
		}
		m.unpark(first)
		m.starve(true)
		if m.remove(first); !hinted(m) {
			t.Error("there is room again, and nobody claims")
		}
		if m.remove(second); hinted(m) {
			t.Error("a claim that was not cut is made again")
		}
		m.drain()
		if m.room() != 0 || !m.drains() || m.expect(h, 3) != nil {
			t.Error("while it drains there is room")
		}
	})
}

// A run is known by its ID from its introduction until its end is notified.
func TestMemoryKnowsRunsByID(t *testing.T) {
	m, h := newTestMemory(t, Config{MaxRuns: 10})
	a := m.expect(h, 1)
	if m.has("a") {
		t.Error("a run that is not loaded yet is known by its ID")
	}
	m.introduce(a, &store.Run{ID: "a", Workflow: "w", Build: "7"})
	if !m.has("a") {
		t.Error("a loaded run is not known by its ID")
	}
	if list := m.executing("5"); len(list) != 1 || list[0].Workflow != "w" || list[0].Build != "7" {
		t.Errorf("executing is %+v; want w of the later build, 7", list)
	}
	m.unname(a)
	if m.has("a") || m.find(1) != a {
		t.Error("a run whose end is notified is still known by its ID, or is out of memory")
	}
}

// News of a run that has left memory while a claim is asked for are not the claim's to lose.
func TestRunsThatLeaveDuringAClaim(t *testing.T) {
	m, h := newTestMemory(t, Config{MaxRuns: 10})
	before, during, after := m.expect(h, 1), m.expect(h, 2), m.expect(h, 3)
	m.remove(before)
	if made := m.beginClaim(); made != 3 {
		t.Errorf("%d activations were made; want 3", made)
	}
	m.remove(during)
	m.endClaim()
	m.remove(after)
	if m.hasLeft(1) || !m.hasLeft(2) || m.hasLeft(3) {
		t.Errorf("during the claim have left: %t, %t, %t; want the second", m.hasLeft(1), m.hasLeft(2), m.hasLeft(3))
	}
}

// What has been parked for long is evicted, if nothing has happened to it since.
func TestParkedRunsAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, h := newTestMemory(t, Config{MaxRuns: 10, MaxParked: 1, ParkFor: time.Minute})
		a, b := m.expect(h, 1), m.expect(h, 2)
		evicted := func(a *activation) bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return len(a.events) > 0
		}
		a.driving, b.driving = true, true // so that events stay in the queue
		m.park(a, 5)
		m.park(b, 9)
		if !evicted(a) || evicted(b) {
			t.Error("of two parked runs, where one may be, the cheaper one goes")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !evicted(b) {
			t.Error("a run was parked for a minute and is not evicted")
		}
	})
}
