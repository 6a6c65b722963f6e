package memory

import (
	"context"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// forgetAfter is how long a node that ended uncleanly and holds no lease is
// still listed.
const forgetAfter = 24 * time.Hour

// Register implements store.Store.
func (s *Store) Register(ctx context.Context, n store.Node) (store.Time, error) {
	now, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if err := n.Validate(); err != nil {
		return 0, err
	}
	former := s.nodes[boot{n.ID, n.Boot}]
	was := former != nil && former.listed
	switch {
	case n.Stopped:
		delete(s.nodes, boot{n.ID, n.Boot})
		s.changed(s)
		return now, nil
	case n.Draining:
		if was && !former.Draining {
			former.Draining = true
			s.changed(s)
		}
		return now, nil
	}
	if err := s.behind(boot{n.ID, n.Boot}, n.LastBatch); err != nil {
		return 0, err
	}
	n.LastBatch = 0
	for key, other := range s.nodes {
		other.listed = other.listed && key.node != n.ID
	}
	next := s.node(n.ID, n.Boot)
	n.Draining = was && next.Draining
	next.Node, next.SeenAt, next.listed = cloneNode(n), now, true
	if !was {
		s.changed(s)
	}
	for _, w := range n.Workflows {
		s.workflows[w] = true
	}
	for key, other := range s.nodes {
		if other.SeenAt.Add(forgetAfter) < now && !s.holds(key) {
			delete(s.nodes, key)
		}
	}
	return now, nil
}

// behind returns an error if a boot knows of a later batch of its own than the store.
func (d *data) behind(key boot, last int64) error {
	var there int64
	if n := d.nodes[key]; n != nil {
		there = n.batch
	}
	return storekit.Behind(there, last)
}

// node returns the record of a node's boot and makes it if there is none.
func (d *data) node(id, name string) *node {
	key := boot{id, name}
	if d.nodes[key] == nil {
		d.nodes[key] = &node{Node: store.Node{ID: id, Boot: name, SeenAt: d.now}}
	}
	return d.nodes[key]
}

func (d *data) holds(key boot) bool {
	for _, l := range d.leases {
		if l.held && l.Node == key.node && l.Boot == key.boot {
			return true
		}
	}
	return false
}

// Acquire implements store.Store.
func (s *Store) Acquire(
	ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay,
) ([]store.Acquired, store.Time, error) {
	now, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return nil, 0, err
	}
	if err := storekit.ValidateShards(shards, ttl); err != nil {
		return nil, 0, err
	}
	if err := n.Validate(); err != nil {
		return nil, 0, err
	}
	acquired := make([]store.Acquired, len(shards))
	for i, shard := range shards {
		l := s.leases[shard]
		if l == nil {
			l = &lease{clean: true}
			s.leases[shard] = l
		}
		own := l.held && l.Node == n.ID && l.Boot == n.Boot
		if l.held && !own && l.Until > now && s.handles[l.holder] && !n.Supersedes(&l.Lease) {
			acquired[i] = store.Acquired{Lease: l.Lease}
			continue
		}
		clean := !l.held || own
		suspects := s.giveBack(shard, clean)
		l.Lease = store.Lease{Shard: shard, Epoch: l.Epoch + 1, Node: n.ID, Boot: n.Boot, Until: now + store.Time(ttl)}
		l.held, l.holder = true, s
		acquired[i] = store.Acquired{Held: true, Lease: l.Lease, Clean: clean, Suspects: suspects}
	}
	s.changed(s)
	return acquired, now, nil
}

// giveBack makes the shard's claimed runs ready, and suspect unless clean. It
// returns how many became suspect.
func (d *data) giveBack(shard store.Shard, clean bool) int {
	suspects := 0
	for _, r := range d.runs {
		if r.Shard != shard || r.condition != claimed {
			continue
		}
		if r.condition = ready; r.Status == store.Suspended || r.WakeAt != 0 {
			r.condition = idle // it was claimed at rest
		}
		if r.Marks&(store.Paused|store.Held) != 0 || r.Status == store.Suspended || r.Status == store.Queued {
			continue
		}
		if !clean {
			suspects++
			r.suspect()
		}
		r.Alone = false
	}
	return suspects
}

// suspect notes that an owner has ended uncleanly with the run.
func (r *run) suspect() {
	switch {
	case r.Alone:
		r.Suspect, r.Strikes = r.Suspect+1, r.Strikes+1
	case r.Suspect < 2:
		r.Suspect, r.Strikes = r.Suspect+1, 0
	default: // it was not executed, or had been for long
		r.Suspect, r.Strikes = max(r.Suspect-1, 2), 0
	}
}

// current returns the record of a lease if it is current.
func (d *data) current(l *store.Lease) *lease {
	own := d.leases[l.Shard]
	if own == nil || !own.held || own.Epoch != l.Epoch {
		return nil
	}
	return own
}

// Renew implements store.Store.
func (s *Store) Renew(
	ctx context.Context, leases []store.Lease, ttl store.Delay,
) ([]store.Acquired, store.Time, error) {
	now, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return nil, 0, err
	}
	if err := storekit.ValidateShards(nil, ttl); err != nil {
		return nil, 0, err
	}
	renewed := make([]store.Acquired, len(leases))
	for i := range leases {
		if l := s.current(&leases[i]); l != nil {
			l.Until = now + store.Time(ttl)
			renewed[i] = store.Acquired{Held: true, Lease: l.Lease, Clean: true}
		} else if l := s.leases[leases[i].Shard]; l != nil && l.held {
			renewed[i] = store.Acquired{Lease: l.Lease}
		}
	}
	return renewed, now, nil
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, leases []store.Lease) error {
	_, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return err
	}
	for i := range leases {
		if l := s.current(&leases[i]); l != nil {
			s.giveBack(l.Shard, true)
			l.held, l.holder, l.Node, l.Boot, l.Until = false, nil, "", "", 0
		}
	}
	s.changed(s)
	return nil
}

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	now, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return store.Claims{}, err
	}
	if err := req.Validate(); err != nil {
		return store.Claims{}, err
	}
	claims := store.Claims{Now: now}
	shards := map[store.Shard]bool{}
	for i := range req.Leases {
		if s.current(&req.Leases[i]) != nil {
			shards[req.Leases[i].Shard] = true
		} else {
			claims.Fenced = append(claims.Fenced, req.Leases[i].Shard)
		}
	}
	known := map[string]bool{}
	for _, w := range req.Workflows {
		known[w] = true
	}
	fits := func(r *run) bool { return known[r.Workflow] && (req.Build == "" || r.Build <= req.Build) }
	chosen := s.claimable(shards, fits, now)
	if req.Unservable {
		claims.Unservable = s.unservable(shards, chosen, now)
	}
	for _, r := range chosen {
		if len(claims.Runs) == req.Limit {
			claims.More = true
			break
		}
		s.claim(r, r.rests())
		claims.Runs = append(claims.Runs, store.Claimed{New: true, Run: r.snapshot()})
	}
	s.addItems(&claims, shards)
	for _, r := range s.runs {
		if shards[r.Shard] && fits(r) && r.condition == idle && r.WakeAt > now && r.Marks&(store.Paused|store.Held) == 0 &&
			(claims.NextWake == 0 || r.WakeAt < claims.NextWake) {
			claims.NextWake = r.WakeAt
		}
	}
	return claims, nil
}

// claim claims a run.
func (d *data) claim(r *run, atRest bool) {
	r.condition = claimed
	if atRest {
		return
	}
	r.Marks &^= store.Held
	if r.Status == store.Queued || r.Status == store.Suspended {
		r.Status = store.Running
	}
	if r.Status == store.Running && r.Started == 0 {
		r.Started = d.now
	}
	r.WakeAt = 0
}

// addItems adds the unexamined items of all claimed runs, by run.
func (d *data) addItems(claims *store.Claims, shards map[store.Shard]bool) {
	index := map[store.RunNo]int{}
	for i := range claims.Runs {
		index[claims.Runs[i].Run.No] = i
	}
	count := 0
	for _, r := range d.sorted(d.dirty) {
		if r.condition != claimed || !shards[r.Shard] {
			continue
		}
		i, ok := index[r.No]
		for _, it := range r.items {
			if it.State != store.New {
				continue
			}
			if count++; count > store.MaxClaim {
				claims.MoreItems = true
				return
			}
			if !ok {
				i, ok = len(claims.Runs), true
				claims.Runs = append(claims.Runs, store.Claimed{Run: store.Run{No: r.No}})
			}
			claims.Runs[i].Items = append(claims.Runs[i].Items, headOf(it))
		}
	}
}
