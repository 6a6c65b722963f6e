package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// Work is what a member does with the shards that it holds. Its methods are called
// by the member's goroutine and do not block.
type Work interface {
	// Begin begins to work in shards that were taken.
	Begin(taken []store.Acquired)
	// Drain ends the work in shards in an orderly way. It calls released with those in
	// which nothing is done any more, once for each, from any goroutine. Work that takes
	// long is cancelled only if the shards must go. It may be called again with must.
	Drain(shards []store.Shard, must bool, released func([]store.Shard))
	// Lose ends the work in shards that are lost, at once.
	Lose(shards []store.Shard)
	// Executing returns the latest build that is being executed, by shard and workflow.
	Executing() []store.Unservable
	// Unservable returns the ready runs in the shards that cannot be loaded here.
	Unservable() []store.Unservable
}

// Member keeps a node's place among those that work on one store at the same time:
// its row, its share of the shards, and the moment at which it must stop writing. The
// exported fields are required, except for Has, Bodies and Lacks.
type Member struct {
	Store store.Store
	Node  store.Node // with its groups
	Slots int
	Has   func(slot int) bool // of the slots these are the server's; nil: all are
	TTL   time.Duration       // of a lease
	Renew time.Duration       // interval of renewals and heartbeats
	Poll  time.Duration       // of what it waits for
	Log   *slog.Logger
	// Observe receives the store's time with every answer, and when the request was sent.
	Observe func(sent time.Time, now store.Time)
	Now     func() store.Time      // lower bound of the store's time
	Hints   func() <-chan struct{} // closed when nodes or leases may have changed
	Work    Work
	Last    func() int64        // the last batch that the store has acknowledged
	Bodies  func() []store.Body // what the node executes for long; nil: it does not say so
	Lacks   func() []string     // what the process lacks; nil: it does not say so
	// Names returns the node's workflows, in place of those of Node; nil: these. Shared
	// reports whether a workflow is one that a node may learn while it works; nil: none is.
	Names  func() []string
	Shared func(ctx context.Context, workflow string) bool

	// WentBack is called when the store does not have the batch last, which it had
	// acknowledged. It ends the work in all shards at once, and reports them to Fenced.
	WentBack func(last int64, err error)

	wake chan struct{} // capacity 1: something is in the fields below

	mu       sync.Mutex
	fenced   []store.Lease // the store has said that these are not current
	released []store.Shard // the work in these has ended
	ended    error         // why Run returns: the store was closed, or another process replaces this one
	settled  bool          // this node holds what it can, as far as it knows
	until    time.Time     // when the first lease of another node ends; zero: there is none

	// Of the goroutine of Run.
	later      later
	held       map[store.Shard]*heldLease
	needs      map[store.Unservable]store.Time // by what has no build: until when
	builds     map[store.Unservable]string     // of the needs
	registered []store.Requirement             // as they are in the node's row
	nodes      []*store.Node                   // that lived at the last look
	gone       map[string]store.Time           // boots that have died: when they were heard of last
	stopping   bool
	said       map[string]time.Time // when a failure was logged
	lost       losses               // that this node has found
	renewAt    time.Time
	beatAt     time.Time
	lookAt     time.Time
	looked     time.Time
	gap        time.Duration   // between looks because of hints
	waits      bool            // for shards that others are to give back
	longer     map[string]bool // nodes with much longer leases, by ID and boot
	due        []store.Lease   // to be released; the store was away
	giveUp     time.Time       // until then a stop tries to release; zero: it has not failed
}

// heldLease is the lease of a shard that the member holds.
type heldLease struct {
	lease    store.Lease
	renewed  time.Time // before the request was sent
	draining bool
	must     bool // be given back, even if work in it has to be cancelled
}

// DifferError says that a node has other workflows than another one of the same build and
// group.
type DifferError struct {
	Node, Other  string
	Build, Group string
	Lacks, More  []string // that the node lacks, and that it has more
}

// Error names the difference and what to do.
func (e *DifferError) Error() string {
	return fmt.Sprintf("node %s and node %s are of the build %q and the group %q, and have different workflows: "+
		"%s lacks %q and has %q that the other has not; give what differs another build, or other groups",
		e.Node, e.Other, e.Build, e.Group, e.Node, e.Lacks, e.More)
}

const (
	// shortGap and longGap bound the pauses between looks because of hints. Each look
	// that finds nothing new doubles the pause, up to waitGap while the node waits for shards.
	shortGap, waitGap, longGap = 20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond
)

// Fenced is called when the store has fenced a commit or a claim with this lease. The
// work in its shard has ended. It is safe for concurrent use.
func (m *Member) Fenced(l store.Lease) {
	m.mu.Lock()
	m.fenced = append(m.fenced, l)
	m.settled = false
	m.mu.Unlock()
	m.poke()
}

// Settled reports whether this node has taken the shards that it can have, and when the first
// lease of another node ends that does not renew it; zero: there is none. It is safe for
// concurrent use.
func (m *Member) Settled() (settled bool, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settled, m.until
}

// settle notes what Settled returns.
func (m *Member) settle(settled bool, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settled, m.until = settled && len(m.fenced) == 0, until
}

// has reports whether the member's server has a slot.
func (m *Member) has(slot int) bool { return m.Has == nil || m.Has(slot) }

// Look wakes the member. It is safe for concurrent use.
func (m *Member) Look() { m.poke() }

func (m *Member) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Init makes the member ready. It is called once, before any other method.
func (m *Member) Init() {
	m.wake = make(chan struct{}, 1)
	m.held = map[store.Shard]*heldLease{}
	m.needs, m.builds = map[store.Unservable]store.Time{}, map[store.Unservable]string{}
	m.gap = shortGap
}

// Run takes part until stop ends, then drains and releases all shards. The caller calls SignOff when
// nothing is written for them any more. A *DifferError: it was refused. An error that wraps
// store.ErrClosed: the store was closed meanwhile; ErrReplaced: a later process replaces this one.
func (m *Member) Run(stop context.Context) error {
	if err := m.join(stop); err != nil || stop.Err() != nil {
		return err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	stopped := stop.Done()
	hinted := false
	for {
		hints := m.Hints()
		m.pass(hinted)
		if err := m.over(); err != nil {
			m.Work.Lose(slices.Collect(maps.Keys(m.held)))
			return err
		}
		if m.stopping && len(m.held) == 0 && len(m.due) == 0 {
			return nil
		}
		hinted = false
		timer.Reset(m.pause())
		select {
		case <-stopped:
			stopped = nil
			m.stop()
		case <-m.wake:
		case <-hints:
			hinted = true
		case <-timer.C:
		}
	}
}

// StoreClosed notes that the store was closed: Run returns. It may be called at any time.
func (m *Member) StoreClosed(err error) { m.end(err) }

// end notes why Run returns.
func (m *Member) end(err error) {
	m.mu.Lock()
	m.ended = err
	m.mu.Unlock()
	m.poke()
}

// over returns why Run is to return; nil: it goes on.
func (m *Member) over() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

// sayEvery is how often the same failure is logged as a warning.
const sayEvery = time.Minute

// failed logs what could not be done, unless the store was closed.
func (m *Member) failed(what string, err error) {
	if errors.Is(err, store.ErrClosed) {
		m.StoreClosed(err)
		return
	}
	if at, said := m.said[what]; said && time.Since(at) < sayEvery {
		m.Log.Debug(what, "error", err)
		return
	}
	if m.said == nil {
		m.said = map[string]time.Time{}
	}
	m.said[what] = time.Now()
	m.Log.Warn(what, "error", err)
}

// join registers the node, and compares it with others.
func (m *Member) join(stop context.Context) error {
	for {
		ctx, cancel := context.WithTimeout(stop, m.TTL)
		d, err := m.introduce(ctx)
		cancel()
		switch {
		case err == nil:
			m.later.saw(&m.Node, d.Leases...)
			sayZones(m.Log, &m.Node, &d)
			return m.compare(stop, &d)
		case stop.Err() != nil:
			return nil
		case !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("join the nodes: %w", err)
		}
		m.Log.Error("joining the nodes; trying again", "error", err)
		if pause(stop, m.Poll) != nil {
			return nil
		}
	}
}

func (m *Member) introduce(ctx context.Context) (store.Description, error) {
	if err := m.beat(ctx); err != nil {
		return store.Description{}, err
	}
	m.beatAt = time.Now().Add(m.Renew)
	return m.Store.Describe(ctx)
}

// compare refuses a node that has other workflows than one of its build and group.
func (m *Member) compare(ctx context.Context, d *store.Description) error {
	own := &m.Node
	if own.Build == Unknown || len(own.Workflows) == 0 {
		return nil
	}
	for _, n := range m.living(d) {
		if n.ID == own.ID || n.Build != own.Build || len(n.Workflows) == 0 {
			continue
		}
		i := slices.IndexFunc(own.Groups, func(g string) bool { return g != system && slices.Contains(n.Groups, g) })
		if i < 0 {
			continue
		}
		lacks := m.unshared(ctx, without(n.Workflows, own.Workflows))
		more := m.unshared(ctx, without(own.Workflows, n.Workflows))
		if len(lacks)+len(more) > 0 {
			return &DifferError{own.ID, n.ID, own.Build, own.Groups[i], lacks, more}
		}
		lacks, more = without(n.Tasks, own.Tasks), without(own.Tasks, n.Tasks)
		if len(lacks)+len(more) > 0 {
			m.Log.Warn("two nodes of one build and group have functions for different tasks: where a node has none the task "+
				"is offered to workers; give both the same Config.Tasks, or what differs another build",
				"node", own.ID, "other", n.ID, "lacks", lacks, "has_more", more)
		}
	}
	return nil
}

// unshared returns the names without those of the library, which no node has to have.
func (m *Member) unshared(ctx context.Context, names []string) []string {
	if m.Shared == nil {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool { return m.Shared(ctx, name) })
}

// system is the group that every node serves.
const system = store.SystemGroup

func without(list, other []string) []string {
	rest := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
	slices.Sort(rest)
	return rest
}

// living returns the nodes that count, this one among them unless it stops. A node counts
// if it was heard of within the length of its leases, holds none that has ended, is not draining,
// and was not heard of only before the store knew that it has died. Otherwise it would get a share of
// the shards that were taken from it, which would rest until it counts as silent.
func (m *Member) living(d *store.Description) []*store.Node {
	var nodes []*store.Node
	former := m.gone
	m.gone = map[string]store.Time{}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		own := n.ID == m.Node.ID && n.Boot == m.Node.Boot
		ttl := n.TTL
		if ttl == 0 {
			ttl = delay(m.TTL)
		}
		late := n.SeenAt+store.Time(ttl) <= d.Now || slices.ContainsFunc(d.Leases, func(l store.Lease) bool {
			return l.Node == n.ID && l.Boot == n.Boot && l.Until <= d.Now
		})
		gone := m.Node.Supersedes(&store.Lease{Node: n.ID, Boot: n.Boot})
		if at, known := former[n.Boot]; !own && (n.Gone || known && at == n.SeenAt) {
			m.gone[n.Boot], gone = n.SeenAt, true // known also while the store cannot say it
		}
		if !n.Draining && !gone && (own || !late) && !(own && m.stopping) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// stop drains all shards.
func (m *Member) stop() {
	m.stopping = true
	m.mark()
	m.drain(slices.Collect(maps.Keys(m.held)), true)
}

// mark registers that this node is draining.
func (m *Member) mark() {
	ctx, cancel := m.bounded()
	defer cancel()
	if _, err := m.Store.Register(ctx, store.Node{ID: m.Node.ID, Boot: m.Node.Boot, Draining: true}); err != nil {
		m.failed("telling that the node stops", err)
	}
}

// bounded returns the context of a call to the store. It ends before the time at which
// the shards have to be dropped. Where there are none it may take as long as a lease: if
// the store answers slowly, a call that is abandoned early and made again, by a new
// connection, would never come to its end.
func (m *Member) bounded() (context.Context, context.CancelFunc) {
	limit := m.Renew
	switch until := time.Until(m.deadline()); {
	case len(m.held) > 0:
		limit = max(min(limit, until), time.Millisecond)
	case !m.stopping:
		limit = m.TTL
	}
	return context.WithTimeout(context.Background(), limit)
}

// deadline returns when the first shard has to be dropped if nothing is renewed.
func (m *Member) deadline() time.Time {
	var first time.Time
	for _, t := range m.held {
		if end := t.renewed.Add(m.TTL * 2 / 3); first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// pause returns how long there is nothing to do without a hint.
func (m *Member) pause() time.Duration {
	next := m.renewAt
	for _, at := range []time.Time{m.beatAt, m.lookAt, m.deadline()} {
		if at == m.lookAt && m.stopping && len(m.due) == 0 {
			continue
		}
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return max(time.Until(next), 0)
}

// pass does what there is to do.
func (m *Member) pass(hinted bool) {
	m.mu.Lock()
	fenced, released := m.fenced, m.released
	m.fenced, m.released = nil, nil
	m.mu.Unlock()
	for _, l := range fenced {
		if t := m.held[l.Shard]; t != nil && t.lease.Epoch == l.Epoch {
			delete(m.held, l.Shard)
			m.lookAt = time.Now()
		}
	}
	m.expire()
	m.release(released)
	if !time.Now().Before(m.renewAt) {
		m.renew()
	}
	if !m.stopping {
		m.collectNeeds()
	}
	if !time.Now().Before(m.beatAt) {
		m.heartbeat()
	}
	if soon := m.looked.Add(m.gap); hinted && m.lookAt.After(soon) {
		m.lookAt = soon
	}
	if !m.stopping && !time.Now().Before(m.lookAt) {
		switch {
		case m.look():
			m.gap = shortGap
		case hinted && m.waits:
			m.gap = min(2*m.gap, waitGap)
		case hinted:
			m.gap = min(2*m.gap, longGap)
		}
	}
}

// expire drops shards that could not be renewed in time.
func (m *Member) expire() {
	var lost []store.Shard
	for shard, t := range m.held {
		if time.Since(t.renewed) >= m.TTL*2/3 {
			lost = append(lost, shard)
			delete(m.held, shard)
		}
	}
	if len(lost) > 0 {
		m.Log.Error("leases could not be renewed in time: their shards are dropped", "node", m.Node.ID, "shards", len(lost))
		m.settle(false, time.Time{})
		m.Work.Lose(lost)
		m.lookAt = time.Now().Add(m.Poll)
	}
}

// renew extends all leases.
func (m *Member) renew() {
	m.renewAt = time.Now().Add(m.Renew)
	if len(m.held) == 0 {
		return
	}
	leases := make([]store.Lease, 0, len(m.held))
	for _, t := range m.held {
		leases = append(leases, t.lease)
	}
	sent := time.Now()
	ctx, cancel := m.bounded()
	defer cancel()
	renewed, now, err := m.Store.Renew(ctx, leases, delay(m.TTL))
	if err != nil {
		m.failed("renewing leases; trying again", err)
		m.renewAt = time.Now().Add(m.Renew / 10)
		m.expire()
		return
	}
	m.Observe(sent, now)
	var lost []store.Shard
	for i, a := range renewed {
		if a.Held {
			m.held[leases[i].Shard].renewed = sent
			continue
		}
		lost = append(lost, leases[i].Shard)
		delete(m.held, leases[i].Shard)
	}
	if len(lost) > 0 {
		m.Log.Error("leases were taken by other nodes", "node", m.Node.ID, "shards", len(lost))
		m.settle(false, time.Time{})
		m.Work.Lose(lost)
		m.lookAt = time.Now()
	}
}

// heartbeat writes the node's row.
func (m *Member) heartbeat() {
	m.beatAt = time.Now().Add(m.Renew)
	ctx, cancel := m.bounded()
	defer cancel()
	if err := m.beat(ctx); err != nil {
		m.failed("heartbeat; trying again", err)
		m.beatAt = time.Now().Add(m.Renew / 10)
	}
}

func (m *Member) beat(ctx context.Context) error {
	n := m.Node
	n.Requirements, n.TTL, n.LastBatch, n.Lost = m.registered, delay(m.TTL), m.Last(), slices.Clone(m.lost)
	if m.Names != nil {
		n.Workflows = m.Names()
	}
	if m.Bodies != nil {
		n.Bodies = m.Bodies()
	}
	if m.Lacks != nil {
		n.Lacks = m.Lacks()
	}
	sent := time.Now()
	now, err := m.Store.Register(ctx, n)
	if errors.Is(err, store.ErrWentBack) {
		m.WentBack(n.LastBatch, err)
	}
	if err == nil {
		m.Observe(sent, now)
	}
	return err
}

// release gives the leases back of shards in which the work has ended.
func (m *Member) release(shards []store.Shard) {
	for _, shard := range shards {
		if t := m.held[shard]; t != nil {
			m.due = append(m.due, t.lease)
			delete(m.held, shard)
		}
	}
	if len(m.due) == 0 {
		return
	}
	ctx, cancel := m.bounded()
	defer cancel()
	err := m.Store.Release(ctx, m.due)
	switch {
	case err == nil:
		m.due = nil
		m.lookAt = time.Now()
	case m.stopping && m.giveUp.IsZero():
		m.giveUp = time.Now().Add(m.Renew)
		fallthrough
	case m.stopping && time.Now().Before(m.giveUp):
		m.failed("giving leases back; trying again", err)
		m.lookAt = time.Now().Add(m.Renew / 10)
	case m.stopping:
		m.failed("giving leases back; they will end by themselves", err)
		m.due = nil
	default:
		m.failed("giving leases back; trying again", err)
		m.lookAt = time.Now().Add(m.Poll)
		now := m.Now()
		m.due = slices.DeleteFunc(m.due, func(l store.Lease) bool { return l.Until.Add(m.TTL) < now })
	}
}

// drain ends the work in shards that are to be released. must: also work that takes long.
func (m *Member) drain(shards []store.Shard, must bool) {
	shards = slices.DeleteFunc(shards, func(s store.Shard) bool {
		t := m.held[s]
		was := t.draining && (t.must || !must)
		t.draining, t.must = true, t.must || must
		return was
	})
	if len(shards) == 0 {
		return
	}
	m.Work.Drain(shards, must, func(released []store.Shard) {
		m.mu.Lock()
		m.released = append(m.released, released...)
		m.mu.Unlock()
		m.poke()
	})
}

// SignOff takes the node off the list. The store then forgets the boot's last batch: whoever repeats that batch
// later has it carried out again, as a new one. It is called once, after Run and after the last commit.
func (m *Member) SignOff() {
	ctx, cancel := context.WithTimeout(context.Background(), m.Renew)
	defer cancel()
	if _, err := m.Store.Register(ctx, store.Node{ID: m.Node.ID, Boot: m.Node.Boot, Stopped: true}); err != nil {
		m.failed("taking the node off the list", err)
	}
}
