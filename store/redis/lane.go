package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// lane is some of the parts of a store as an engine works on them, see store.Laned. On a cluster
// these are the parts that were on one master when the lanes were noted, see placing.go. A store
// on one server has one lane, with all parts.
//
// The first part of a lane is its home: it has the nodes, and the signs of their witnesses.
type lane struct {
	*Store
	index     int
	parts     []int  // in their order
	at        string // the address of its master when the store was opened, or ""
	witnesses storekit.Witnesses
}

// home returns the part that has the nodes.
func (l *lane) home() int { return l.parts[0] }

// String names the lane in errors.
func (l *lane) String() string {
	if l.at == "" {
		return fmt.Sprintf("lane %d of %d", l.index+1, len(l.lanes))
	}
	return fmt.Sprintf("lane %d of %d, at %s when this process began", l.index+1, len(l.lanes), l.at)
}

// Lanes implements store.Laned.
func (s *Store) Lanes() []store.Store {
	if len(s.lanes) == 1 {
		return []store.Store{s}
	}
	list := make([]store.Store, len(s.lanes))
	for i, l := range s.lanes {
		list[i] = l
	}
	return list
}

// LaneOf implements store.Laned.
func (s *Store) LaneOf(slot int) int { return s.laneOf[s.partOf(slot)] }

// SlotOf implements store.Laned.
func (s *Store) SlotOf(run store.RunNo) int { return int(int64(run) % int64(s.slots)) }

// only returns an error if a slot is not of the lane.
func (l *lane) only(slots ...int) error {
	for _, slot := range slots {
		if slot < 0 || slot >= l.slots {
			return fmt.Errorf("%w: expected a slot below %d, found %d", store.ErrInvalid, l.slots, slot)
		}
		if l.LaneOf(slot) != l.index {
			return fmt.Errorf("%w: expected slots of %s, found %d of %s", store.ErrInvalid, l, slot, l.lanes[l.LaneOf(slot)])
		}
	}
	return nil
}

// onlyLeases returns an error if a lease is not of the lane.
func (l *lane) onlyLeases(leases []store.Lease) error {
	for i := range leases {
		if err := l.only(leases[i].Shard.Slot); err != nil {
			return err
		}
	}
	return nil
}

// Acquire implements store.Store.
func (l *lane) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired,
	store.Time, error) {
	for _, shard := range shards {
		if err := l.only(shard.Slot); err != nil {
			return nil, 0, fmt.Errorf("acquire leases: %w", err)
		}
	}
	return l.acquire(ctx, l.home(), n, shards, ttl)
}

// Renew implements store.Store.
func (l *lane) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time,
	error) {
	if err := l.onlyLeases(leases); err != nil {
		return nil, 0, fmt.Errorf("renew leases: %w", err)
	}
	return l.renew(ctx, l.home(), leases, ttl)
}

// Release implements store.Store.
func (l *lane) Release(ctx context.Context, leases []store.Lease) error {
	if err := l.onlyLeases(leases); err != nil {
		return fmt.Errorf("release leases: %w", err)
	}
	return l.release(ctx, l.home(), leases)
}

// Claim implements store.Store.
func (l *lane) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	if err := l.onlyLeases(req.Leases); err != nil {
		return store.Claims{}, fmt.Errorf("claim runs: %w", err)
	}
	return l.claim(ctx, l.home(), req)
}

// Commit implements store.Store. What the turns send to other lanes is delivered by the relay, at
// once.
func (l *lane) Commit(ctx context.Context, b store.Batch) (store.BatchResult, error) {
	if err := l.validate(&b); err != nil {
		return store.BatchResult{}, err
	}
	for _, t := range b.Turns {
		if err := l.only(t.Shard.Slot); err != nil {
			return store.BatchResult{}, fmt.Errorf("commit a batch: %w", err)
		}
	}
	if err := l.onlyLeases(b.Leases); err != nil {
		return store.BatchResult{}, fmt.Errorf("commit a batch: %w", err)
	}
	c := committing{Store: l.Store, lane: l, b: &b}
	if err := c.numbered(ctx); err != nil {
		return store.BatchResult{}, err
	}
	return c.result, nil
}

// undecided reports whether Apply carries a command of the batch out: its run is in another lane, or
// may have been replaced, and so be in any.
func (c *committing) undecided(command *store.Command) bool {
	if c.lane == nil {
		return false
	}
	id := command.RunID
	if command.Start != nil {
		id = command.Start.ID
	}
	return replaced(id) > 0 || c.elsewhere(c.partOf(c.slotOfCommand(command)))
}

// home returns the part that is asked for the time of a batch that has nothing else.
func (c *committing) home() int {
	if c.lane == nil {
		return 0
	}
	return c.lane.home()
}

// Sweep implements store.Store. Runs that are named may be in any lane.
func (l *lane) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	if len(req.Runs) > 0 {
		return l.Store.Sweep(ctx, req)
	}
	if err := l.onlyLeases(req.Leases); err != nil {
		return store.Swept{}, fmt.Errorf("sweep: %w", err)
	}
	return sweepIn(ctx, l.Store, l, req)
}

// onLanes calls fn for all lanes, at the same time. Of several errors it returns one, the last one in the
// order of the lanes that is not of a lane which is away, if there is one.
func onLanes(s *Store, fn func(*lane) error) error {
	if len(s.lanes) == 1 {
		return fn(s.lanes[0])
	}
	errs := make([]error, len(s.lanes))
	var asked sync.WaitGroup
	for i, l := range s.lanes {
		asked.Go(func() { errs[i] = fn(l) })
	}
	asked.Wait()
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || !away(err)) {
			first = err
		}
	}
	return first
}

// away reports whether an error says that a server cannot be reached, or has not answered.
func away(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown)
}

// Describe implements store.Store. Of lanes that are away it says nothing, if another one is there; it
// waits for them for a moment alone.
func (s *Store) Describe(ctx context.Context) (store.Description, error) {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var list []store.Description
	var late *time.Timer
	err := onLanes(s, func(l *lane) error {
		d, err := l.Describe(limited)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			if list = append(list, d); late == nil && len(s.lanes) > 1 {
				late = time.AfterFunc(otherLanes, cancel)
			}
		}
		return err
	})
	if late != nil {
		late.Stop()
	}
	if err != nil && (len(list) == 0 || !away(err) || ctx.Err() != nil) {
		return store.Description{}, err
	}
	d := storekit.MergeDescriptions(list)
	if len(s.lanes) > 1 {
		d.Lanes = len(s.lanes)
	}
	return d, nil
}

// Register implements store.Store. The node is registered in all lanes.
func (s *Store) Register(ctx context.Context, n store.Node) (store.Time, error) {
	var mu sync.Mutex
	var latest store.Time
	err := onLanes(s, func(l *lane) error {
		now, err := l.register(ctx, n, boot{n.ID, n.Boot, -1})
		mu.Lock()
		defer mu.Unlock()
		latest = max(latest, now)
		return err
	})
	if err != nil {
		return 0, err
	}
	return latest, nil
}

// Register implements store.Store.
func (l *lane) Register(ctx context.Context, n store.Node) (store.Time, error) {
	return l.register(ctx, n, boot{n.ID, n.Boot, l.index})
}
