// Package activations keeps the runs that are in memory: one activation of each at most.
// Suspended ones are parked there, and those that were parked longest are evicted when all of them take too many
// bytes. Each is evicted after a time.
package activations

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/internal/idle"
	"github.com/stet-run/stet/internal/ownership"
	"github.com/stet-run/stet/internal/parking"
	"github.com/stet-run/stet/internal/recovery"
	"github.com/stet-run/stet/store"
)

// Activation is one run in memory. Its methods may be called concurrently.
type Activation interface {
	comparable
	// No returns the number of the run.
	No() store.RunNo
	// Shard returns the stay of the run's shard.
	Shard() *ownership.Shard
	// Gone reports whether it takes no events any more.
	Gone() bool
	// EvictionDue is called when it has been parked for long, or others need the room.
	EvictionDue()
}

// Config is what a Memory is made from. All fields are required.
type Config[A Activation] struct {
	MaxRuns        int           // in memory; entities are counted by themselves
	MaxParkedBytes int           // of parked runs, which do not count for MaxRuns
	ParkFor        time.Duration // how long one is parked
	Drivers        *idle.Goroutines
	// Make returns a new activation. number grows with each.
	Make func(h *ownership.Shard, no store.RunNo, number int64) A
	// ClaimSoon is called when there is room again for what a claim has left.
	ClaimSoon func()
}

// Memory is the runs that are in memory, by number. Its methods may be called concurrently.
type Memory[A Activation] struct {
	cfg Config[A]

	mu       sync.Mutex
	active   map[store.RunNo]*resident[A]
	made     int64           // activations made so far
	ids      map[string]bool // IDs of the active
	draining atomic.Bool     // nothing new begins; set under mu
	parked   *parking.Lot[A]
	eviction *time.Timer // nil: nothing is parked
	starved  bool        // a claim was cut because memory was full
	entities int         // that are in memory and not parked

	claims []claim // by lane
}

// claim says whether a claim of a lane is being asked for. gone are the runs that have left
// memory meanwhile: the answer may bring news of one that is ready again since.
type claim struct {
	asked bool
	gone  map[store.RunNo]bool
}

// resident is an activation that is in memory, with what its run is once it is loaded.
type resident[A Activation] struct {
	a                   A
	id, workflow, build string
	parent              string // its ID, if the parent was in memory when this run was introduced
	entity, parked      bool
}

// New returns a memory without runs.
func New[A Activation](cfg Config[A]) *Memory[A] {
	return &Memory[A]{
		cfg: cfg, active: map[store.RunNo]*resident[A]{}, ids: map[string]bool{},
		parked: parking.New[A](cfg.MaxParkedBytes, cfg.ParkFor),
	}
}

// Drain lets nothing new begin.
func (m *Memory[A]) Drain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.draining.Store(true)
	if m.eviction != nil {
		m.eviction.Stop()
	}
}

// Drains reports whether nothing new may begin.
func (m *Memory[A]) Drains() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.draining.Load()
}

// BeginDriver counts a goroutine that will load a run. It reports false if nothing new
// begins: the executor may be waiting for its drivers already, and none may be added then.
func (m *Memory[A]) BeginDriver() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.draining.Load() {
		return false
	}
	m.cfg.Drivers.Add()
	return true
}

// Room returns how many more runs memory may take.
func (m *Memory[A]) Room() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.roomLocked()
}

func (m *Memory[A]) roomLocked() int {
	if m.draining.Load() {
		return 0
	}
	free := min(m.entities, m.cfg.MaxRuns)
	return max(m.cfg.MaxRuns-len(m.active)+m.parked.Len()+free, 0)
}

// Counts returns how many runs are in memory, without the parked ones, and how many are parked.
func (m *Memory[A]) Counts() (running, parked int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	parked = m.parked.Len()
	return max(len(m.active)-parked, 0), parked
}

// Expect puts a run into memory whose snapshot will be posted. It returns nil if
// the run is there already, or if its shard or the executor drains.
func (m *Memory[A]) Expect(h *ownership.Shard, no store.RunNo) (a A) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.draining.Load() || h.Draining() || h.Lost() {
		return a
	}
	if former := m.active[no]; former != nil {
		if !former.a.Gone() && former.a.Shard() == h {
			return a
		}
		m.removeLocked(former)
	}
	m.made++
	a = m.cfg.Make(h, no, m.made)
	m.active[no] = &resident[A]{a: a}
	return a
}

// Introduce says which run an expected activation is.
func (m *Memory[A]) Introduce(a A, run *store.Run) {
	m.mu.Lock()
	if r := m.ofLocked(a); r != nil {
		r.id, r.workflow, r.build = run.ID, run.Workflow, run.Build
		m.ids[run.ID] = true
		if p := m.active[run.Parent]; p != nil {
			r.parent = p.id
		}
		if store.IsEntity(run.Workflow) && !r.entity {
			r.entity = true
			m.entities++
		}
	}
	fed := m.fedLocked()
	m.mu.Unlock()
	if fed {
		m.cfg.ClaimSoon()
	}
}

// parkedLocked notes that an activation is parked, or no more.
func (m *Memory[A]) parkedLocked(a A, yes bool) {
	r := m.ofLocked(a)
	if r == nil || r.parked == yes {
		return
	}
	r.parked = yes
	switch {
	case !r.entity:
	case yes:
		m.entities--
	default:
		m.entities++
	}
}

// ofLocked returns what is known of an activation; nil: it is not in memory any more.
func (m *Memory[A]) ofLocked(a A) *resident[A] {
	if r := m.active[a.No()]; r != nil && r.a == a {
		return r
	}
	return nil
}

// Find returns the activation of a run, or nil.
func (m *Memory[A]) Find(no store.RunNo) (a A) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.active[no]; r != nil {
		a = r.a
	}
	return a
}

// ParentID returns the ID of a child's parent, if that is in memory, or was when the child was introduced; "": neither.
func (m *Memory[A]) ParentID(child, parent store.RunNo) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.active[child]; r != nil && r.parent != "" {
		return r.parent
	}
	if r := m.active[parent]; r != nil {
		return r.id
	}
	return ""
}

// Has reports whether the run with an ID is being executed, and its end will be notified.
func (m *Memory[A]) Has(runID string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ids[runID]
}

// All returns all activations, in any order.
func (m *Memory[A]) All() []A {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]A, 0, len(m.active))
	for _, r := range m.active {
		all = append(all, r.a)
	}
	return all
}

// Unname removes the run from the index by ID, so that later waiters read the store
// instead of waiting to be notified.
func (m *Memory[A]) Unname(a A) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.ofLocked(a); r != nil {
		delete(m.ids, r.id)
	}
}

// Remove takes an activation out of memory.
func (m *Memory[A]) Remove(a A) {
	m.mu.Lock()
	if r := m.ofLocked(a); r != nil {
		m.removeLocked(r)
	}
	starved := m.fedLocked()
	m.mu.Unlock()
	if starved {
		m.cfg.ClaimSoon()
	}
}

// fedLocked reports whether there is room again for what a claim has left.
func (m *Memory[A]) fedLocked() bool {
	if !m.starved || m.roomLocked() == 0 {
		return false
	}
	m.starved = false
	return true
}

func (m *Memory[A]) removeLocked(r *resident[A]) {
	no := r.a.No()
	if r.entity && !r.parked {
		m.entities--
	}
	delete(m.active, no)
	delete(m.ids, r.id)
	for i := range m.claims {
		if m.claims[i].asked {
			m.claims[i].gone[no] = true
		}
	}
	m.parked.Remove(r.a)
}

// BeginClaim is called before a claim of a lane is asked for. It returns the number of
// activations until then.
func (m *Memory[A]) BeginClaim(lane int) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.claims) <= lane {
		m.claims = append(m.claims, claim{})
	}
	m.claims[lane] = claim{true, map[store.RunNo]bool{}}
	return m.made
}

// EndClaim is called when a claim of a lane is answered, or has failed.
func (m *Memory[A]) EndClaim(lane int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims[lane].asked = false
}

// HasLeft reports whether a run has left memory while the last claim of a lane was asked for.
func (m *Memory[A]) HasLeft(lane int, no store.RunNo) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return lane < len(m.claims) && m.claims[lane].gone[no]
}

// Starve says whether the last claim was cut because memory was full. Then the next run
// that leaves memory or is parked wakes the dispatcher, as does one that has since the claim
// was asked for.
func (m *Memory[A]) Starve(yes bool) {
	m.mu.Lock()
	m.starved = yes
	fed := m.fedLocked()
	m.mu.Unlock()
	if fed {
		m.cfg.ClaimSoon()
	}
}

// Park keeps a suspended run in memory, which takes so many bytes there.
func (m *Memory[A]) Park(a A, bytes int) {
	m.mu.Lock()
	if m.ofLocked(a) == nil || m.draining.Load() {
		m.mu.Unlock()
		return
	}
	leaving := m.parked.Park(a, bytes, time.Now())
	m.parkedLocked(a, true)
	for _, victim := range leaving {
		m.parkedLocked(victim, false)
	}
	if m.eviction == nil && m.parked.Len() > 0 {
		m.eviction = time.AfterFunc(m.cfg.ParkFor, m.evictExpired)
	}
	fed := m.fedLocked()
	m.mu.Unlock()
	for _, victim := range leaving {
		victim.EvictionDue()
	}
	if fed {
		m.cfg.ClaimSoon()
	}
}

// Unpark is called by the driver of a run that goes on.
func (m *Memory[A]) Unpark(a A) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parked.Remove(a)
	m.parkedLocked(a, false)
}

// evictExpired ends the activations that have been parked for long.
func (m *Memory[A]) evictExpired() {
	m.mu.Lock()
	now := time.Now()
	expired := m.parked.Expired(now)
	for _, a := range expired {
		m.parkedLocked(a, false)
	}
	m.eviction = nil
	if next, some := m.parked.Next(now); some && !m.draining.Load() {
		m.eviction = time.AfterFunc(next, m.evictExpired)
	}
	m.mu.Unlock()
	for _, a := range expired {
		a.EvictionDue()
	}
}

// Stats is what an engine has in memory.
type Stats struct {
	Executing, Waiting, Committing int // bodies

	Running, Parked int // runs

	Shards map[string]int // by group

	Recovered *recovery.Report // nil: there is none yet
}

// Executing returns the latest build that is being executed, by shard and workflow. Any
// node executes entities: they are left out.
func (m *Memory[A]) Executing(build string) []store.Unservable {
	m.mu.Lock()
	defer m.mu.Unlock()
	latest := map[store.Unservable]string{} // by what has no build
	for _, r := range m.active {
		if r.id != "" && !m.parked.Has(r.a) && !store.IsEntity(r.workflow) {
			of := store.Unservable{Shard: r.a.Shard().ID(), Workflow: r.workflow}
			latest[of] = max(latest[of], build, r.build)
		}
	}
	list := make([]store.Unservable, 0, len(latest))
	for of, build := range latest {
		of.Build = build
		list = append(list, of)
	}
	return list
}
