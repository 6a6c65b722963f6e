package activations

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-run/stet/internal/idle"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/store"
)

// activation is an activation of these tests, which are its only caller.
type activation struct {
	shard   *ownership.Shard
	no      store.RunNo
	number  int64
	gone    bool
	evicted atomic.Bool
}

func (a *activation) No() store.RunNo         { return a.no }
func (a *activation) Shard() *ownership.Shard { return a.shard }
func (a *activation) Gone() bool              { return a.gone }
func (a *activation) EvictionDue()            { a.evicted.Store(true) }

// testMemory is the memory of a process that holds one shard.
type testMemory struct {
	*Memory[*activation]
	shards ownership.Set
	shard  *ownership.Shard
	claims int // that were asked for
}

func newTestMemory(t *testing.T, cfg Config[*activation]) *testMemory {
	m := &testMemory{}
	cfg.Drivers = &idle.Goroutines{}
	cfg.Make = func(h *ownership.Shard, no store.RunNo, number int64) *activation {
		return &activation{shard: h, no: no, number: number}
	}
	cfg.ClaimSoon = func() { m.claims++ }
	m.Memory = New(cfg)
	m.shards.Take(t.Context(), []store.Lease{{Shard: store.Shard{Group: "g"}}})
	m.shard = m.shards.Now().Of(store.Shard{Group: "g"})
	return m
}

// Memory has at most one activation of a run, and none of a shard in which nothing begins.
func TestMemoryHasOneActivationOfARun(t *testing.T) {
	m := newTestMemory(t, Config[*activation]{MaxRuns: 10})
	a := m.Expect(m.shard, 1)
	if a == nil || m.Expect(m.shard, 1) != nil || m.Find(1) != a {
		t.Fatal("a run is in memory twice, or not at all")
	}
	a.gone = true
	later := m.Expect(m.shard, 1)
	if later == nil || later == a || later.number <= a.number {
		t.Error("a run whose activation is gone does not come into memory again")
	}
	m.Remove(a) // the former one: it is not there any more
	if m.Find(1) != later {
		t.Error("the end of a former activation has removed the later one")
	}
	m.shards.Close(m.shard)
	if m.Expect(m.shard, 2) != nil {
		t.Error("a run of a draining shard has come into memory")
	}
	m.shards.Lose(m.shard)
	if m.Expect(m.shard, 3) != nil {
		t.Error("a run of a lost shard has come into memory")
	}
}

// Parked runs make room for others, and the end of one wakes a claim that was cut.
func TestRoomInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestMemory(t, Config[*activation]{MaxRuns: 2, MaxParkedBytes: 5, ParkFor: time.Hour})
		first, second := m.Expect(m.shard, 1), m.Expect(m.shard, 2)
		if m.Room() != 0 {
			t.Errorf("there is room for %d; want 0", m.Room())
		}
		m.Park(first, 1)
		if m.Room() != 1 {
			t.Errorf("beside a parked run there is room for %d; want 1", m.Room())
		}
		m.Unpark(first)
		m.Starve(true)
		if m.Remove(first); m.claims != 1 {
			t.Error("there is room again, and nobody claims")
		}
		if m.Remove(second); m.claims != 1 {
			t.Error("a claim that was not cut is made again")
		}
		m.Drain()
		if m.Room() != 0 || !m.Drains() || m.Expect(m.shard, 3) != nil {
			t.Error("while it drains there is room")
		}
	})
}

// A claim that was cut is made again when a run is parked, and also if memory has got room while
// it was under way.
func TestCutClaimsAreMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestMemory(t, Config[*activation]{MaxRuns: 1, MaxParkedBytes: 5, ParkFor: time.Hour})
		a := m.Expect(m.shard, 1)
		if m.Starve(true); m.claims != 0 {
			t.Error("memory is full, and a claim is made")
		}
		if m.Park(a, 1); m.claims != 1 {
			t.Errorf("a run is parked: %d claims are made; want 1", m.claims)
		}
		if m.Starve(true); m.claims != 2 {
			t.Errorf("there has been room since: %d claims are made; want 2", m.claims)
		}
		if m.Remove(a); m.claims != 2 {
			t.Errorf("nothing is left for a claim: %d are made; want 2", m.claims)
		}
	})
}

// A run is known by its ID from its introduction until its end is notified.
func TestMemoryKnowsRunsByID(t *testing.T) {
	m := newTestMemory(t, Config[*activation]{MaxRuns: 10})
	a := m.Expect(m.shard, 1)
	if m.Has("a") {
		t.Error("a run that is not loaded yet is known by its ID")
	}
	m.Introduce(a, &store.Run{ID: "a", Workflow: "w", Build: "7"})
	if !m.Has("a") {
		t.Error("a loaded run is not known by its ID")
	}
	if list := m.Executing("5"); len(list) != 1 || list[0].Workflow != "w" || list[0].Build != "7" {
		t.Errorf("executing is %+v; want w of the later build, 7", list)
	}
	m.Unname(a)
	if m.Has("a") || m.Find(1) != a {
		t.Error("a run whose end is notified is still known by its ID, or is out of memory")
	}
}

// News of a run that has left memory while a claim is asked for are not the claim's to lose.
func TestRunsThatLeaveDuringAClaim(t *testing.T) {
	m := newTestMemory(t, Config[*activation]{MaxRuns: 10})
	before, during, after := m.Expect(m.shard, 1), m.Expect(m.shard, 2), m.Expect(m.shard, 3)
	m.Remove(before)
	if made := m.BeginClaim(0); made != 3 {
		t.Errorf("%d activations were made; want 3", made)
	}
	m.Remove(during)
	m.EndClaim(0)
	m.Remove(after)
	if m.HasLeft(0, 1) || !m.HasLeft(0, 2) || m.HasLeft(0, 3) {
		t.Errorf("during the claim have left: %t, %t, %t; want the second", m.HasLeft(0, 1), m.HasLeft(0, 2), m.HasLeft(0, 3))
	}
}

// TestParkedRunsAreEvicted: as many runs leave as it takes, the longest parked first, and a run that is too large
// leaves at once. So does one that has been parked for long.
func TestParkedRunsAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestMemory(t, Config[*activation]{MaxRuns: 10, MaxParkedBytes: 100, ParkFor: time.Minute})
		var runs []*activation
		for no := range store.RunNo(5) {
			runs = append(runs, m.Expect(m.shard, no))
		}
		expect := func(what string, evicted ...bool) {
			t.Helper()
			for i, want := range evicted {
				if got := runs[i].evicted.Load(); got != want {
					t.Errorf("%s: run %d is evicted: %t, want %t", what, i, got, want)
				}
			}
		}
		m.Park(runs[0], 40)
		m.Park(runs[1], 40)
		m.Park(runs[2], 20)
		time.Sleep(50 * time.Second)
		expect("there is room", false, false, false)
		m.Unpark(runs[0])
		m.Park(runs[0], 41) // it has grown
		expect("the one that has waited longest leaves", false, true, false)
		m.Park(runs[3], 101)
		expect("one alone is too large", false, true, false, true)
		m.Park(runs[4], 99)
		if expect("others need their room", true, true, true, true, false); m.parked.Bytes() != 99 {
			t.Errorf("%d bytes are parked, want 99", m.parked.Bytes())
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		expect("the last one has been parked for 59 s", true, true, true, true, false)
		time.Sleep(time.Second)
		synctest.Wait()
		expect("… and for a minute", true, true, true, true, true)
		if _, parked := m.Counts(); parked != 0 || m.parked.Bytes() != 0 {
			t.Errorf("%d are parked, with %d bytes; want none", parked, m.parked.Bytes())
		}
	})
}

// TestEntitiesAreNoRuns: those that are at work take no run's room, up to as many as there may be runs. Each is
// counted once, whether it is parked or not.
func TestEntitiesAreNoRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestMemory(t, Config[*activation]{MaxRuns: 2, MaxParkedBytes: 1, ParkFor: time.Minute})
		queue := &store.Run{ID: "stet.queue/q", Workflow: "stet.queue"}
		expect := func(what string, want int) {
			t.Helper()
			if got := m.Room(); got != want {
				t.Errorf("%s: there is room for %d; want %d", what, got, want)
			}
		}
		a, b := m.Expect(m.shard, 1), m.Expect(m.shard, 2)
		m.Starve(true)
		expect("what they are is not known", 0)
		m.Introduce(a, queue)
		m.Introduce(a, queue)
		if expect("one is an entity", 1); m.claims != 1 {
			t.Errorf("there is room again: %d claims are made; want 1", m.claims)
		}
		m.Introduce(b, queue)
		expect("both are", 2)
		c := m.Expect(m.shard, 3)
		m.Introduce(c, queue)
		expect("a third one takes room", 1)
		m.Park(c, 1)
		expect("one is parked", 2)
		m.Park(b, 1) // in place of the other one, which is to leave
		if expect("another one is parked", 2); !c.evicted.Load() {
			t.Error("the first one stays")
		}
		m.Unpark(b)
		m.Unpark(b)
		expect("none is parked", 1)
		m.Remove(c)
		expect("the third one has left", 2)
		m.Park(b, 1)
		time.Sleep(time.Hour)
		if expect("one has been parked for long", 2); !b.evicted.Load() {
			t.Error("what has been parked for long stays")
		}
		m.Remove(a)
		m.Remove(b)
		m.Remove(b)
		m.Introduce(m.Expect(m.shard, 4), &store.Run{ID: "w", Workflow: "w"})
		expect("there is a run alone", 1)
	})
}
