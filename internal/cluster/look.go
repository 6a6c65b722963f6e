package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/stet-run/stet/store"
)

// look compares the shards that this node holds with those that it should hold. It takes
// those that are missing and drains those that are too many. It reports whether there were
// any, or one was lost.
func (m *Member) look() bool {
	m.looked = time.Now()
	m.lookAt = m.looked.Add(m.Renew)
	ctx, cancel := m.bounded()
	defer cancel()
	d, err := m.Store.Describe(ctx)
	if err != nil {
		m.failed("looking at the nodes; trying again", err)
		m.lookAt = time.Now().Add(m.Poll)
		return false
	}
	m.Observe(m.looked, d.Now)
	if err := m.later.replaced(&m.Node, d.Leases...); err != nil {
		m.end(err)
		return false
	}
	leases := make(map[store.Shard]*store.Lease, len(d.Leases))
	for i := range d.Leases {
		leases[d.Leases[i].Shard] = &d.Leases[i]
	}
	m.lost.keep(d.Nodes)
	changed := m.reconcile(leases)
	take, drain, waits := m.plan(&d, leases)
	if m.waits = waits; waits {
		m.soon(m.Poll)
	}
	var until time.Time // the first of them
	for _, l := range leases {
		// A lease that ends may be the first sign of a node's death.
		foreign := l.Node != m.Node.ID || l.Boot != m.Node.Boot
		if l.Until > d.Now && foreign && slices.Contains(m.Node.Groups, l.Shard.Group) {
			ends := l.Until.Sub(d.Now) + time.Millisecond
			m.soon(ends)
			if at := m.looked.Add(ends); until.IsZero() || at.Before(until) {
				until = at
			}
		}
	}
	m.drain(drain.must, true)
	m.drain(drain.may, false)
	m.settle(len(take) == 0 || m.take(take, &d), until)
	return changed || len(take)+len(drain.must)+len(drain.may) > 0
}

// drains are the shards that a node should give back. Work in one of may ends where it is, however
// long it takes. One of must holds a run that other nodes can load and this one cannot, or the node
// was asked to take no shards.
type drains struct{ must, may []store.Shard }

// soon plans the next look for d after the last one at the latest.
func (m *Member) soon(d time.Duration) {
	if at := m.looked.Add(d); at.Before(m.lookAt) {
		m.lookAt = at
	}
}

// reconcile drops the shards whose lease in the store is not the one that is held. It
// reports whether there were any.
func (m *Member) reconcile(leases map[store.Shard]*store.Lease) bool {
	var lost []store.Shard
	for shard, t := range m.held {
		if l := leases[shard]; l == nil || l.Epoch != t.lease.Epoch {
			lost = append(lost, shard)
			delete(m.held, shard)
		}
	}
	if len(lost) > 0 {
		m.Log.Error("leases were taken by other nodes", "node", m.Node.ID, "shards", len(lost))
		m.settle(false, time.Time{})
		m.Work.Lose(lost)
	}
	return len(lost) > 0
}

// plan returns the shards that this node should take and can, and those that it should
// drain. waits says that it should have others, which are not free yet. Leases that this
// boot holds without knowing it, because an answer was lost, are due for release.
func (m *Member) plan(
	d *store.Description, leases map[store.Shard]*store.Lease,
) (take []store.Shard, drain drains, waits bool) {
	m.compareLeases(d.Nodes)
	living := m.living(d)
	m.nodes = living
	var needs []store.Requirement
	for _, n := range living {
		needs = append(needs, n.Requirements...)
	}
	var unknown []store.Lease // held by this boot, which does not know it
	for _, name := range m.Node.Groups {
		g := Group{Name: name, Slots: m.Slots, Has: m.has, Held: map[int]string{}, Needs: needs}
		for _, n := range living {
			if slices.Contains(n.Groups, name) {
				g.Nodes = append(g.Nodes, n)
			}
		}
		for shard, l := range leases {
			owns := func(n *store.Node) bool { return n.ID == l.Node && n.Boot == l.Boot }
			if shard.Group == name && slices.ContainsFunc(g.Nodes, owns) {
				g.Held[shard.Slot] = l.Node
			}
		}
		for slot, owner := range Assign(g, d.Now) {
			shard := store.Shard{Group: name, Slot: slot}
			l, t := leases[shard], m.held[shard]
			own := l != nil && l.Node == m.Node.ID && l.Boot == m.Node.Boot
			switch {
			case owner != m.Node.ID && t != nil && m.mustGive(shard, &g, d.Now):
				drain.must = append(drain.must, shard)
			case owner != m.Node.ID && t != nil:
				drain.may = append(drain.may, shard)
			case owner != m.Node.ID && own:
				unknown = append(unknown, *l)
			case owner != m.Node.ID, t != nil:
			case l == nil || own || l.Until <= d.Now || m.Node.Supersedes(l):
				take = append(take, shard)
			default:
				waits = true
			}
		}
	}
	m.due = append(m.due, slices.DeleteFunc(unknown, func(l store.Lease) bool {
		return slices.ContainsFunc(m.due, func(due store.Lease) bool { return due.Shard == l.Shard })
	})...)
	return take, drain, waits
}

// mustGive reports whether a shard of this node is to go even if work in it has to be cancelled: the node takes
// part no more, or lacks what a run in the shard needs.
func (m *Member) mustGive(shard store.Shard, g *Group, now store.Time) bool {
	i := slices.IndexFunc(g.Nodes, func(n *store.Node) bool { return n.ID == m.Node.ID && n.Boot == m.Node.Boot })
	return i < 0 || slices.ContainsFunc(g.Needs, func(need store.Requirement) bool {
		return need.Shard == shard && need.Until > now && !Meets(g.Nodes[i], need.Workflow, need.Build)
	})
}

// muchLonger is by how much the leases of another node are longer when that is logged.
const muchLonger = 4

// compareLeases logs, once for each, the nodes whose leases are much longer than those of
// this one: if such a node dies, its shards rest for that long.
func (m *Member) compareLeases(nodes []store.Node) {
	listed := map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		key := n.ID + " " + n.Boot
		if listed[key] = n.TTL > muchLonger*delay(m.TTL); listed[key] && !m.longer[key] {
			m.Log.Warn("another node has much longer leases: if it dies, its shards rest for that long; give all the "+
				"same LeaseTTL", "node", n.ID, "lease", time.Duration(n.TTL)*time.Microsecond, "own", m.TTL)
		}
	}
	m.longer = listed
}

// take tries to take shards, which stood as described. It reports whether it has them all.
func (m *Member) take(shards []store.Shard, before *store.Description) bool {
	m.due = slices.DeleteFunc(m.due, func(l store.Lease) bool { return slices.Contains(shards, l.Shard) })
	sent := time.Now()
	ctx, cancel := m.bounded()
	defer cancel()
	acquired, now, err := m.Store.Acquire(ctx, m.Node, shards, delay(m.TTL))
	if err != nil {
		m.failed("taking shards; trying again", err)
		m.soon(m.Poll)
		return false
	}
	m.Observe(sent, now)
	var taken []store.Acquired
	for i := range acquired {
		if !acquired[i].Held {
			m.soon(m.Poll) // another was faster
			continue
		}
		m.held[acquired[i].Lease.Shard] = &heldLease{lease: acquired[i].Lease, renewed: sent}
		taken = append(taken, acquired[i])
	}
	if len(taken) == 0 {
		return false
	}
	if renewAt := sent.Add(m.Renew); len(m.held) == len(taken) {
		m.renewAt = renewAt
	}
	if lost := logLost(m.Log, m.Node.ID, before, taken); len(lost) > 0 {
		m.lost.add(lost)
		m.beatAt = time.Now() // so that others know
	}
	m.Log.Info("shards taken", "node", m.Node.ID, "taken", len(taken), "held", len(m.held))
	m.Work.Begin(taken)
	return len(taken) == len(shards)
}

// divides reports whether some of the nodes that were seen last can load runs of a
// workflow and build, and others cannot.
func (m *Member) divides(u store.Unservable) bool {
	meets, lacks := false, false
	for _, n := range m.nodes {
		if len(n.Workflows) > 0 && slices.Contains(n.Groups, u.Shard.Group) {
			met := Meets(n, u.Workflow, u.Build)
			meets, lacks = meets || met, lacks || !met
		}
	}
	return meets && lacks
}

// collectNeeds updates what the next owners of this node's shards must be able to load:
// the runs that it found there and cannot load, and those that it is executing. Only
// runs count that some of the nodes can load and others cannot.
func (m *Member) collectNeeds() {
	now := m.Now()
	until := now.Add(2 * m.TTL)
	note := func(list []store.Unservable) {
		for _, u := range list {
			if m.held[u.Shard] == nil || !m.divides(u) {
				continue
			}
			of := store.Unservable{Shard: u.Shard, Workflow: u.Workflow}
			m.needs[of], m.builds[of] = until, max(m.builds[of], u.Build)
		}
	}
	note(m.Work.Unservable())
	note(m.Work.Executing())
	fresh := false // something is to be registered at once
	var needs []store.Requirement
	for of, end := range m.needs {
		if end <= now {
			delete(m.needs, of)
			delete(m.builds, of)
			continue
		}
		need := store.Requirement{Shard: of.Shard, Workflow: of.Workflow, Build: m.builds[of], Until: end}
		i := slices.IndexFunc(m.registered, func(t store.Requirement) bool {
			return t.Shard == need.Shard && t.Workflow == need.Workflow && t.Build == need.Build
		})
		fresh = fresh || i < 0 || m.registered[i].Until < min(now.Add(m.TTL), end)
		needs = append(needs, need)
	}
	slices.SortFunc(needs, func(a, b store.Requirement) int {
		return cmp.Or(cmp.Compare(a.Shard.Group, b.Shard.Group), cmp.Compare(a.Shard.Slot, b.Shard.Slot),
			cmp.Compare(a.Workflow, b.Workflow))
	})
	m.registered = needs
	if fresh {
		m.beatAt = time.Now()
		m.lookAt = time.Now()
	}
}
