package engine

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/parking"
	"github.com/stet-run/stet/internal/steps"
	"github.com/stet-run/stet/store"
)

// memory is the runs that are in memory, by number: one activation of each at most.
// Suspended ones are parked there for a while, and evicted when there are too many.
type memory struct {
	x *executor

	mu       sync.Mutex
	active   map[store.RunNo]*activation
	made     int64           // activations made so far
	ids      map[string]bool // IDs of the active
	draining bool            // nothing new begins
	parked   *parking.Lot[*activation]
	eviction *time.Timer // nil: nothing is parked
	starved  bool        // a claim was cut because memory was full

	// claiming says that a claim is being asked for; gone are the runs that have left
	// memory meanwhile. The answer may bring news of one that is ready again since.
	claiming bool
	gone     map[store.RunNo]bool
}

func newMemory(x *executor) *memory {
	return &memory{
		x: x, active: map[store.RunNo]*activation{}, ids: map[string]bool{},
		parked: parking.New[*activation](x.e.cfg.MaxParked, x.e.cfg.ParkFor),
	}
}

// drain lets nothing new begin.
func (m *memory) drain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.draining = true
	if m.eviction != nil {
		m.eviction.Stop()
	}
}

// drains reports whether nothing new may begin.
func (m *memory) drains() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.draining
}

// beginDriver counts a goroutine that will load a run. It reports false if nothing new
// begins: the executor may be waiting for its drivers already, and none may be added then.
func (m *memory) beginDriver() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.draining {
		return false
	}
	m.x.drivers.Add()
	return true
}

// room returns how many more runs memory may take.
func (m *memory) room() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.draining {
		return 0
	}
	return max(m.x.e.cfg.MaxRuns-len(m.active)+m.parked.Len(), 0)
}

// expect puts a run into memory whose snapshot will be posted. It returns nil if
// the run is there already, or if its shard or the executor drains.
func (m *memory) expect(h *ownership.Shard, no store.RunNo) *activation {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.draining || h.Draining() || h.Lost() {
		return nil
	}
	if former := m.active[no]; former != nil {
		if !former.isGone() && former.shard == h {
			return nil
		}
		m.removeLocked(former)
	}
	m.made++
	a := &activation{x: m.x, shard: h, no: no, number: m.made, places: steps.Places{Pool: m.x.steps.Pool}}
	m.active[no] = a
	return a
}

// introduce gives an expected activation the run's ID and code.
func (m *memory) introduce(a *activation, run *store.Run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.id, a.workflow = run.ID, m.x.e.cfg.Workflows[run.Workflow]
	a.name, a.build = run.Workflow, run.Build
	if m.active[a.no] == a {
		m.ids[run.ID] = true
	}
}

// find returns the activation of a run, or nil.
func (m *memory) find(no store.RunNo) *activation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.active[no]
}

// has reports whether the run with an ID is being executed, and its end will be notified.
func (m *memory) has(runID string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ids[runID]
}

// all returns all activations, in any order.
func (m *memory) all() []*activation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.AppendSeq(make([]*activation, 0, len(m.active)), maps.Values(m.active))
}

// unname removes the run from the index by ID, so that later waiters read the store
// instead of waiting to be notified.
func (m *memory) unname(a *activation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.active[a.no] == a {
		delete(m.ids, a.id)
	}
}

// remove takes an activation out of memory.
func (m *memory) remove(a *activation) {
	m.mu.Lock()
	m.removeLocked(a)
	starved := m.starved && !m.draining
	m.starved = false
	m.mu.Unlock()
	if starved {
		m.x.dispatcher.claimSoon()
	}
}

func (m *memory) removeLocked(a *activation) {
	if m.active[a.no] == a {
		delete(m.active, a.no)
		delete(m.ids, a.id)
		if m.claiming {
			m.gone[a.no] = true
		}
		m.parked.Remove(a)
	}
}

// beginClaim is called before a claim is asked for. It returns the number of activations
// until then.
func (m *memory) beginClaim() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claiming, m.gone = true, map[store.RunNo]bool{}
	return m.made
}

// endClaim is called when a claim is answered, or has failed.
func (m *memory) endClaim() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claiming = false
}

// hasLeft reports whether a run has left memory while the last claim was asked for.
func (m *memory) hasLeft(no store.RunNo) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone[no]
}

// starve says whether the last claim was cut because memory was full. Then the next run
// that leaves memory wakes the dispatcher.
func (m *memory) starve(yes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starved = yes
}

// park keeps a suspended run in memory for a while. size is what it costs to replay it.
func (m *memory) park(a *activation, size int) {
	m.mu.Lock()
	if m.active[a.no] != a || m.draining {
		m.mu.Unlock()
		return
	}
	victim, full := m.parked.Park(a, size, time.Now())
	if m.eviction == nil && m.parked.Len() > 0 {
		m.eviction = time.AfterFunc(m.x.e.cfg.ParkFor, m.evictExpired)
	}
	m.mu.Unlock()
	if full {
		victim.post(evictionDue{})
	}
}

// unpark is called by the driver of a run that goes on.
func (m *memory) unpark(a *activation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parked.Remove(a)
}

// evictExpired ends the activations that have been parked for long.
func (m *memory) evictExpired() {
	m.mu.Lock()
	now := time.Now()
	expired := m.parked.Expired(now)
	m.eviction = nil
	if next, some := m.parked.Next(now); some && !m.draining {
		m.eviction = time.AfterFunc(next, m.evictExpired)
	}
	m.mu.Unlock()
	for _, a := range expired {
		a.post(evictionDue{})
	}
}

// executing returns the latest build that is being executed, by shard and workflow. Any
// node executes entities: they are left out.
func (m *memory) executing(build string) []store.Unservable {
	m.mu.Lock()
	defer m.mu.Unlock()
	latest := map[store.Unservable]string{} // by what has no build
	for _, a := range m.active {
		if a.id != "" && !m.parked.Has(a) && !store.IsEntity(a.name) {
			of := store.Unservable{Shard: a.shard.ID(), Workflow: a.name}
			latest[of] = max(latest[of], build, a.build)
		}
	}
	list := make([]store.Unservable, 0, len(latest))
	for of, build := range latest {
		of.Build = build
		list = append(list, of)
	}
	return list
}
