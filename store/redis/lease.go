package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// lease reads a kept lease: epoch, end, node and boot.
func (r *reader) lease(shard, kept string) store.Lease {
	epoch, rest, _ := strings.Cut(kept, ";")
	until, rest, _ := strings.Cut(rest, ";")
	node, boot, ok := strings.Cut(rest, "\n")
	if !ok {
		r.bad("a lease cannot be read")
	}
	return store.Lease{Shard: parseShard(shard), Epoch: r.number(epoch), Until: store.Time(r.number(until)), Node: node,
		Boot: boot}
}

// sawEpoch notes the epoch of a shard: the next one that is given is higher, also if the
// server has lost it since.
func (s *Store) sawEpoch(shard store.Shard, epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epochs[shard] = max(s.epochs[shard], epoch)
}

func (s *Store) seenEpoch(shard store.Shard) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epochs[shard]
}

// overLease returns the kept form of the lease of a shard that has ended though it ends later,
// as this process sees it, or "".
func (s *Store) overLease(shard store.Shard) string {
	l, ok := s.ahead.Over(shard)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d;%d;%s\n%s", l.Epoch, l.Until, l.Node, l.Boot)
}

// byPart groups things by the part of their shard: of each part that has some their
// places.
func byPart[T any](s *Store, list []T, slot func(*T) int) (parts []int, places map[int][]int) {
	places = map[int][]int{}
	for i := range list {
		part := s.partOf(slot(&list[i]))
		if places[part] == nil {
			parts = append(parts, part)
		}
		places[part] = append(places[part], i)
	}
	return parts, places
}

func slotOfShard(s *store.Shard) int { return s.Slot }
func slotOfLease(l *store.Lease) int { return l.Shard.Slot }

// acquired reads the answer about one shard.
func (s *Store) acquired(r *reader, shard store.Shard, m reply) store.Acquired {
	f := r.tuple(m, 2)
	held, epoch := r.text(f[0]), r.int(f[1])
	s.sawEpoch(shard, epoch)
	if len(f) < 5 {
		return store.Acquired{}
	}
	return store.Acquired{Held: held == "1", Lease: store.Lease{
		Shard: shard, Epoch: epoch, Until: r.time(f[2]), Node: r.text(f[3]), Boot: r.text(f[4]),
	}}
}

// Acquire implements store.Store.
func (s *Store) Acquire(ctx context.Context, n store.Node, shards []store.Shard,
	ttl store.Delay) ([]store.Acquired, store.Time, error) {
	return s.acquire(ctx, 0, n, shards, ttl)
}

// acquire is Acquire. The part home is asked for the time if there are no shards; so it is in
// renew, release and claim.
func (s *Store) acquire(ctx context.Context, home int, n store.Node, shards []store.Shard,
	ttl store.Delay) ([]store.Acquired, store.Time, error) {
	if err := storekit.ValidateShards(shards, ttl); err != nil {
		return nil, 0, err
	}
	if err := n.Validate(); err != nil {
		return nil, 0, err
	}
	s.cfg.conns.leased(ttl)
	for _, shard := range shards {
		if shard.Slot >= s.slots {
			return nil, 0, fmt.Errorf("acquire: %w: expected a slot below %d, found %s", store.ErrInvalid, s.slots, shard)
		}
	}
	parts, places := byPart(s, shards, slotOfShard)
	if len(parts) == 0 {
		now, err := s.time(ctx, home)
		return nil, now, err
	}
	var r reader
	var now store.Time
	list := make([]store.Acquired, len(shards))
	for left := parts; len(left) > 0; {
		var calls []call
		for _, part := range left {
			calls = append(calls, call{part, acquireArguments(s, &n, shards, places[part], ttl)})
		}
		replies, err := s.run(ctx, acquireScript, "acquire leases", calls...)
		if err != nil {
			return nil, 0, err
		}
		var more []int
		for k, m := range replies {
			part := left[k]
			f := r.tuple(m, 2)
			now = s.observe(r.time(f[0]))
			results := r.tuple(f[1], 1)
			for j := range min(len(results), len(places[part])) {
				i := places[part][j]
				list[i] = s.acquired(&r, shards[i], results[j])
				if list[i].Held {
					f := r.tuple(results[j], 7)
					list[i].Clean, list[i].Suspects = r.text(f[5]) == "1", int(r.int(f[6]))
				}
			}
			if r.err != nil {
				return nil, 0, r.err
			}
			if places[part] = places[part][min(len(results), len(places[part])):]; len(places[part]) > 0 {
				more = append(more, part)
			}
		}
		left = more
	}
	if s.relay != nil {
		_ = s.relay.Look(ctx, parts...) // tried again in the background
	}
	s.hints.tell(store.Change{Nodes: true})
	return list, now, nil
}

// acquireChunk is how many shards one script takes at the most.
const acquireChunk = 128

// acquireArguments returns the arguments of acquire.lua for the first of the shards with the
// given places.
func acquireArguments(s *Store, n *store.Node, shards []store.Shard, places []int, ttl store.Delay) []string {
	var a args
	a.text(n.ID, n.Boot)
	a.int(int64(ttl))
	a.bool(n.Replaces)
	each(&a, places[:min(len(places), acquireChunk)], func(i int) {
		a.shard(shards[i])
		a.text(shards[i].Group)
		a.int(s.seenEpoch(shards[i]))
		a.text(s.overLease(shards[i]))
	})
	return a.list
}

// Renew implements store.Store.
func (s *Store) Renew(ctx context.Context, leases []store.Lease,
	ttl store.Delay) ([]store.Acquired, store.Time, error) {
	return s.renew(ctx, 0, leases, ttl)
}

func (s *Store) renew(ctx context.Context, home int, leases []store.Lease,
	ttl store.Delay) ([]store.Acquired, store.Time, error) {
	if err := storekit.ValidateShards(nil, ttl); err != nil {
		return nil, 0, err
	}
	s.cfg.conns.leased(ttl)
	parts, places := byPart(s, leases, slotOfLease)
	if len(parts) == 0 {
		now, err := s.time(ctx, home)
		return nil, now, err
	}
	var calls []call
	for _, part := range parts {
		var a args
		a.int(int64(ttl))
		each(&a, places[part], func(i int) {
			a.shard(leases[i].Shard)
			a.int(leases[i].Epoch)
		})
		calls = append(calls, call{part, a.list})
	}
	replies, err := s.run(ctx, renewScript, "renew leases", calls...)
	if err != nil {
		return nil, 0, err
	}
	var r reader
	var now store.Time
	list := make([]store.Acquired, len(leases))
	for k, m := range replies {
		f := r.tuple(m, 3)
		now = s.observe(r.time(f[0]))
		results := r.tuple(f[1], len(places[parts[k]]))
		for j, i := range places[parts[k]] {
			list[i] = s.acquired(&r, leases[i].Shard, results[j])
			list[i].Clean = list[i].Held
		}
		if s.relay != nil {
			s.relay.Noticed(parts[k], r.foremost(f[2]))
		}
	}
	return list, now, r.err
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, leases []store.Lease) error {
	return s.release(ctx, 0, leases)
}

func (s *Store) release(ctx context.Context, home int, leases []store.Lease) error {
	parts, places := byPart(s, leases, slotOfLease)
	if len(parts) == 0 {
		_, err := s.time(ctx, home)
		return err
	}
	var calls []call
	for _, part := range parts {
		var a args
		each(&a, places[part], func(i int) {
			a.shard(leases[i].Shard)
			a.text(leases[i].Shard.Group)
			a.int(leases[i].Epoch)
		})
		calls = append(calls, call{part, a.list})
	}
	replies, err := s.run(ctx, releaseScript, "release leases", calls...)
	if err != nil {
		return err
	}
	var r reader
	for _, m := range replies {
		s.observe(r.time(r.tuple(m, 1)[0]))
	}
	s.hints.tell(store.Change{Nodes: true})
	return r.err
}

// time asks a part for the store's time alone.
func (s *Store) time(ctx context.Context, part int) (store.Time, error) {
	m, err := s.one(ctx, renewScript, "read the time", part, "1", "0")
	if err != nil {
		return 0, err
	}
	var r reader
	return s.observe(r.time(r.tuple(m, 1)[0])), r.err
}

// leases adds some of the leases, and their groups: see claim.lua.
func (a *args) leases(list []store.Lease, which []int) {
	each(a, which, func(i int) { a.shard(list[i].Shard) })
	var groups []string
	for _, i := range which {
		a.text(strconv.FormatInt(list[i].Epoch, 10) + ";")
		if group := list[i].Shard.Group; !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	each(a, groups, func(group string) { a.text(group, "") })
}
