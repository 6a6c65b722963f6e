package ownership

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stet-run/stet/store"
)

// Shards are the shards that a process holds at one moment. It does not change, but the
// state of each shard does.
type Shards struct {
	leases []store.Lease
	open   []store.Lease
	of     map[store.Shard]*Shard
	lanes  []*Shards // of each lane those that it has; nil: there is one lane
}

func newShards(of map[store.Shard]*Shard) *Shards {
	s := &Shards{of: of, leases: make([]store.Lease, 0, len(of))}
	for _, held := range of {
		s.leases = append(s.leases, held.lease)
		if !held.Draining() {
			s.open = append(s.open, held.lease)
		}
	}
	return s
}

// In returns those of a lane.
func (s *Shards) In(lane int) *Shards {
	if s.lanes == nil {
		return s
	}
	return s.lanes[lane]
}

// Of returns the stay of a shard, or nil.
func (s *Shards) Of(shard store.Shard) *Shard { return s.of[shard] }

// Leases returns the leases of all shards. The caller must not change the slice.
func (s *Shards) Leases() []store.Lease { return s.leases }

// Open returns the leases of the shards that are not draining, of which runs may be
// claimed. The caller must not change the slice.
func (s *Shards) Open() []store.Lease { return s.open }

// AnyOpen reports whether one of Open may be in a set.
func (s *Shards) AnyOpen(set *store.ShardSet) bool {
	return slices.ContainsFunc(s.open, func(l store.Lease) bool { return set.Has(l.Shard) })
}

// These returns those of the shards that are held.
func (s *Shards) These(shards []store.Shard) []*Shard {
	var held []*Shard
	for _, shard := range shards {
		if h := s.of[shard]; h != nil {
			held = append(held, h)
		}
	}
	return held
}

// All returns all shards, in any order.
func (s *Shards) All() iter.Seq[*Shard] { return maps.Values(s.of) }

// Set is the shards that a process holds now. The zero Set holds none, and has one lane. It
// is safe for concurrent use.
type Set struct {
	mu     sync.Mutex // serializes the replacement of now
	now    atomic.Pointer[Shards]
	lanes  int
	laneOf func(slot int) int
}

// Divide makes so many lanes, of which laneOf says the one that has a slot. It is called
// before any other method.
func (s *Set) Divide(lanes int, laneOf func(slot int) int) {
	if lanes > 1 {
		s.lanes, s.laneOf = lanes, laneOf
		s.set(nil)
	}
}

// set makes these the shards that are held. s.mu is held.
func (s *Set) set(of map[store.Shard]*Shard) {
	all := newShards(of)
	if s.lanes > 1 {
		parts := make([]map[store.Shard]*Shard, s.lanes)
		for shard, held := range of {
			lane := s.laneOf(shard.Slot)
			if parts[lane] == nil {
				parts[lane] = map[store.Shard]*Shard{}
			}
			parts[lane][shard] = held
		}
		for _, part := range parts {
			all.lanes = append(all.lanes, newShards(part))
		}
	}
	s.now.Store(all)
}

var none = newShards(nil)

// Now returns the shards that are held at this moment.
func (s *Set) Now() *Shards {
	if now := s.now.Load(); now != nil {
		return now
	}
	return none
}

// Take adds the shards of leases that were acquired. The context of each ends with ctx
// at the latest.
func (s *Set) Take(ctx context.Context, leases []store.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := maps.Clone(s.Now().of)
	if of == nil {
		of = make(map[store.Shard]*Shard, len(leases))
	}
	for _, l := range leases {
		held := &Shard{lease: l}
		held.ctx, held.cancel = context.WithCancel(ctx)
		of[l.Shard] = held
	}
	s.set(of)
}

// Leave returns those of the shards that are held, which are to be given back. must: even if
// what is under way in them takes long.
func (s *Set) Leave(shards []store.Shard, must bool) []*Shard {
	held := s.Now().These(shards)
	for _, h := range held {
		if must {
			h.must.Store(true)
		}
	}
	return held
}

// Close marks shards as draining: nothing new begins in them.
func (s *Set) Close(shards ...*Shard) {
	if len(shards) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range shards {
		h.mu.Lock()
		h.draining.Store(true)
		h.mu.Unlock()
	}
	s.set(s.Now().of)
}

// Open undoes Close, and calls what was deferred until then.
func (s *Set) Open(shards ...*Shard) {
	var deferred []func()
	s.mu.Lock()
	for _, h := range shards {
		h.mu.Lock()
		h.draining.Store(false)
		deferred = append(deferred, h.deferred...)
		h.deferred = nil
		h.mu.Unlock()
	}
	s.set(s.Now().of)
	s.mu.Unlock()
	for _, f := range deferred {
		f()
	}
}

// Lose ends stays at once. It returns those that it has ended: one that was lost before
// is not among them. The contexts end when all of them are marked.
func (s *Set) Lose(shards ...*Shard) (ended []*Shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := maps.Clone(s.Now().of)
	for _, h := range shards {
		if !h.lost.Swap(true) {
			ended = append(ended, h)
			if of[h.ID()] == h {
				delete(of, h.ID())
			}
		}
	}
	s.set(of)
	for _, h := range ended {
		h.cancel()
	}
	return ended
}
