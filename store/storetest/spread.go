package storetest

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/stet-run/stet/store"
)

// Spread checks a store that has so many slots: the cases' work in slot 0 of a group is spread over all slots of it, by
// the IDs of runs, as the engine does it. Leases of all slots are taken and given back together.
func Spread(open Open, slots int) Open {
	return func(t *testing.T, clock func() time.Time) Harness {
		h := &spreadHarness{Harness: open(t, clock), slots: slots,
			homes: &homes{slots: map[store.RunNo]int{}, used: map[int]bool{}}}
		h.first = h.wrap(h.Harness.First())
		return h
	}
}

type spreadHarness struct {
	Harness
	slots int
	homes *homes
	first *spread
}

// homes are the slots of the runs that were seen.
type homes struct {
	mu    sync.Mutex
	slots map[store.RunNo]int
	used  map[int]bool // slots in which runs were to be started
}

// apart says that a name of a replaced run, ID@N, is in another slot than ID: whether
// a run can be started under it is then the store's affair.
func (h *spreadHarness) apart() bool { return true }

func (h *spreadHarness) wrap(s store.Store) *spread { return &spread{s, h.slots, h.homes} }

func (h *spreadHarness) First() store.Store { return h.first }

func (h *spreadHarness) Join(t testing.TB) store.Store { return h.wrap(h.Harness.Join(t)) }

func (h *spreadHarness) Kill(t testing.TB, s store.Store) bool {
	return h.Harness.Kill(t, s.(*spread).Store)
}

// spread is a handle whose slots are one.
type spread struct {
	store.Store
	slots int
	homes *homes
}

// command and the next ones translate the store's arguments.
func (s *spread) command(c store.Command) store.Command {
	if c.Start != nil {
		start := *c.Start
		if start.Shard.Slot == 0 {
			start.Shard.Slot = int(xxhash.Sum64String(start.ID) % uint64(s.slots))
		}
		c.Start = &start
		s.homes.mu.Lock()
		s.homes.used[start.Shard.Slot] = true
		s.homes.mu.Unlock()
	}
	return c
}

func (s *spread) commands(list []store.Command) []store.Command {
	list = slices.Clone(list)
	for i := range list {
		list[i] = s.command(list[i])
	}
	return list
}

func (s *spread) turn(t *store.Turn) *store.Turn {
	if t == nil {
		return nil
	}
	c := *t
	s.homes.mu.Lock()
	c.Shard.Slot = s.homes.slots[t.Run]
	s.homes.mu.Unlock()
	c.Sends = s.commands(t.Sends)
	if t.Update != nil {
		u := *t.Update
		u.Sends = s.commands(u.Sends)
		c.Update = &u
	}
	return &c
}

func (s *spread) shards(list []store.Shard) []store.Shard {
	var all []store.Shard
	for _, shard := range list {
		if shard.Slot != 0 {
			return list // a bad one
		}
		for slot := range s.slots {
			all = append(all, store.Shard{Group: shard.Group, Slot: slot})
		}
	}
	return all
}

func (s *spread) leases(list []store.Lease) []store.Lease {
	var all []store.Lease
	for _, l := range list {
		for slot := range s.slots {
			l.Shard.Slot = slot
			all = append(all, l)
		}
	}
	return all
}

// gather notes the homes of runs and makes all slots 0.
func gather[T any](s *spread, v T) T {
	s.homes.mu.Lock()
	defer s.homes.mu.Unlock()
	s.walk(reflect.ValueOf(&v).Elem())
	return v
}

func (s *spread) walk(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *store.Run:
		if x.ID != "" {
			s.homes.slots[x.No] = x.Shard.Slot
		}
		x.Shard.Slot = 0
		return
	case *store.Shard:
		x.Slot = 0
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			s.walk(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			s.walk(v.Index(i))
		}
	}
}

// acquired makes one answer of those about all slots of each shard.
func (s *spread) acquired(list []store.Acquired) []store.Acquired {
	var folded []store.Acquired
	for of := range slices.Chunk(list, s.slots) {
		one := of[0]
		for _, a := range of[1:] {
			one.Held, one.Clean, one.Suspects = one.Held && a.Held, one.Clean && a.Clean, one.Suspects+a.Suspects
		}
		folded = append(folded, one)
	}
	return gather(s, folded)
}

func once(list []store.Shard) []store.Shard {
	var folded []store.Shard
	for _, shard := range list {
		if !slices.Contains(folded, shard) {
			folded = append(folded, shard)
		}
	}
	return folded
}

// Changed makes slot 0 of those in which there may be runs; hints about others are dropped.
func (s *spread) Changed(ctx context.Context) (store.Change, error) {
	change, err := s.Store.Changed(ctx)
	var ready store.ShardSet
	s.homes.mu.Lock()
	defer s.homes.mu.Unlock()
	for slot := range s.homes.used {
		for _, group := range []string{store.DefaultGroup, store.SystemGroup} {
			if change.Ready.Has(store.Shard{Group: group, Slot: slot}) {
				ready.Add(store.Shard{Group: group})
			}
		}
	}
	change.Ready = ready
	return change, err
}

func (s *spread) Describe(ctx context.Context) (store.Description, error) {
	d, err := s.Store.Describe(ctx)
	d.Leases = slices.DeleteFunc(d.Leases, func(l store.Lease) bool { return l.Shard.Slot > 0 })
	return d, err
}

func (s *spread) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired,
	store.Time, error) {
	a, now, err := s.Store.Acquire(ctx, n, s.shards(shards), ttl)
	return s.acquired(a), now, err
}

func (s *spread) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time,
	error) {
	a, now, err := s.Store.Renew(ctx, s.leases(leases), ttl)
	return s.acquired(a), now, err
}

func (s *spread) Release(ctx context.Context, leases []store.Lease) error {
	return s.Store.Release(ctx, s.leases(leases))
}

func (s *spread) Apply(ctx context.Context, commands []store.Command) ([]store.Answer, store.Time, error) {
	a, now, err := s.Store.Apply(ctx, s.commands(commands))
	return gather(s, a), now, err
}

func (s *spread) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	b.Leases, b.Commands = s.leases(b.Leases), s.commands(b.Commands)
	turns := make([]*store.Turn, len(b.Turns))
	for i, t := range b.Turns {
		turns[i] = s.turn(t)
	}
	b.Turns = turns
	r, err := s.Store.Commit(ctx, b)
	return gather(s, r), err
}

func (s *spread) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	req.Leases = s.leases(req.Leases)
	c, err := s.Store.Claim(ctx, req)
	c = gather(s, c)
	c.Fenced = once(c.Fenced)
	latest := map[store.Unservable]int{}
	var unservable []store.Unservable
	for _, u := range c.Unservable {
		key := store.Unservable{Shard: u.Shard, Workflow: u.Workflow}
		i, ok := latest[key]
		if !ok {
			latest[key] = len(unservable)
			unservable = append(unservable, u)
			continue
		}
		unservable[i].Build = max(unservable[i].Build, u.Build)
	}
	slices.SortFunc(unservable, func(a, b store.Unservable) int {
		return cmp.Or(cmp.Compare(a.Shard.Group, b.Shard.Group), cmp.Compare(a.Workflow, b.Workflow))
	})
	c.Unservable = unservable
	return c, err
}

func (s *spread) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	snaps, left, err := s.Store.Load(ctx, runs)
	return gather(s, snaps), left, err
}

func (s *spread) List(ctx context.Context, f store.Filter) (store.Page, error) {
	f.Claimed = s.shards(f.Claimed)
	p, err := s.Store.List(ctx, f)
	return gather(s, p), err
}

func (s *spread) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	f.Claimed = s.shards(f.Claimed)
	return s.Store.Count(ctx, f)
}

func (s *spread) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	req.Leases = s.leases(req.Leases)
	swept, err := s.Store.Sweep(ctx, req)
	swept = gather(s, swept)
	swept.Fenced = once(swept.Fenced)
	return swept, err
}
