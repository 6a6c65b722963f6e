package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/internal/sqlstore"
	"github.com/stet-run/stet/store/storekit"
)

// Describe implements store.Store. A node is one that any of the databases knows. Of databases
// that are away it says nothing, if another one is there.
func (w *Wide) Describe(ctx context.Context) (store.Description, error) {
	if w.closed.Load() {
		return store.Description{}, store.ErrClosed
	}
	var mu sync.Mutex
	var list []store.Description
	err := w.each(ctx, nil, func(_ int, s *Store) error {
		d, err := s.Describe(ctx)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			list = append(list, d)
		}
		return err
	})
	if len(list) == 0 {
		return store.Description{}, err
	}
	sum := storekit.MergeDescriptions(list)
	sum.ID, sum.Kind, sum.Slots, sum.Lanes = w.place.Store, "postgres", len(w.place.Slots), len(w.lanes)
	sum.Lines = false // a line and its queue may be in two databases
	sum.Durable = fmt.Sprintf("%d databases; %s", len(w.databases), sum.Durable)
	return sum, nil
}

// Register implements store.Store.
func (w *Wide) Register(ctx context.Context, n store.Node) (store.Time, error) {
	if err := n.Validate(); err != nil {
		return 0, err
	}
	last := n.LastBatch
	var mu sync.Mutex
	var latest store.Time
	err := w.each(ctx, nil, func(index int, s *Store) error {
		own := n
		own.LastBatch = w.told(&store.Batch{Node: n.ID, Boot: n.Boot, Last: last}, index)
		now, err := s.Register(ctx, own)
		mu.Lock()
		defer mu.Unlock()
		latest = max(latest, now)
		return err
	})
	if n.Stopped && err == nil {
		w.mu.Lock()
		delete(w.acked, boot{n.ID, n.Boot})
		w.mu.Unlock()
	}
	return latest, err
}

// places groups things by their database: the places of each.
func places[T any](w *Wide, list []T, slot func(T) int) (which map[int]bool, of map[int][]int) {
	which, of = map[int]bool{}, map[int][]int{}
	for i := range list {
		index := w.place.Slots[slot(list[i])]
		which[index] = true
		of[index] = append(of[index], i)
	}
	if len(list) == 0 {
		which[0] = true // the time is needed all the same
	}
	return which, of
}

func pick[T any](list []T, of []int) []T {
	picked := make([]T, len(of))
	for k, i := range of {
		picked[k] = list[i]
	}
	return picked
}

// Acquire implements store.Store.
func (w *Wide) Acquire(ctx context.Context, n store.Node, shards []store.Shard, ttl store.Delay) ([]store.Acquired,
	store.Time, error) {
	if err := errors.Join(storekit.ValidateShards(shards, ttl), n.Validate()); err != nil {
		return nil, 0, err
	}
	for _, shard := range shards {
		if err := w.checkSlots(shard.Slot); err != nil {
			return nil, 0, err
		}
	}
	which, of := places(w, shards, func(s store.Shard) int { return s.Slot })
	return w.leased(ctx, len(shards), which, of, func(index int, s *Store) ([]store.Acquired, store.Time, error) {
		got, now, err := s.Acquire(ctx, n, pick(shards, of[index]), ttl)
		if err == nil {
			_ = w.relay.Look(ctx, index) // tried again in the background
		}
		return got, now, err
	})
}

// leased calls fn for databases, and puts the answers in their order.
func (w *Wide) leased(ctx context.Context, n int, which map[int]bool, of map[int][]int,
	fn func(index int, s *Store) ([]store.Acquired, store.Time, error)) ([]store.Acquired, store.Time, error) {
	list, latest := make([]store.Acquired, n), store.Time(0)
	var mu sync.Mutex
	err := w.each(ctx, which, func(index int, s *Store) error {
		got, now, err := fn(index, s)
		mu.Lock()
		defer mu.Unlock()
		latest = max(latest, now)
		for k := range got {
			list[of[index][k]] = got[k]
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return list, latest, nil
}

// Renew implements store.Store.
func (w *Wide) Renew(ctx context.Context, leases []store.Lease, ttl store.Delay) ([]store.Acquired, store.Time,
	error) {
	if err := storekit.ValidateShards(nil, ttl); err != nil {
		return nil, 0, err
	}
	for i := range leases {
		if err := w.checkSlots(leases[i].Shard.Slot); err != nil {
			return nil, 0, err
		}
	}
	which, of := places(w, leases, func(l store.Lease) int { return l.Shard.Slot })
	return w.leased(ctx, len(leases), which, of, func(index int, s *Store) ([]store.Acquired, store.Time, error) {
		got, now, err := s.Renew(ctx, pick(leases, of[index]), ttl)
		if err == nil && len(of[index]) > 0 {
			if first, failed := waitingPosts(ctx, s); failed == nil {
				w.relay.Noticed(index, first)
			}
		}
		return got, now, err
	})
}

// Release implements store.Store.
func (w *Wide) Release(ctx context.Context, leases []store.Lease) error {
	for i := range leases {
		if err := w.checkSlots(leases[i].Shard.Slot); err != nil {
			return err
		}
	}
	which, of := places(w, leases, func(l store.Lease) int { return l.Shard.Slot })
	return w.each(ctx, which, func(index int, s *Store) error { return s.Release(ctx, pick(leases, of[index])) })
}

// Claim implements store.Store. It looks at all databases first, and then claims of each what is
// among the first of all.
func (w *Wide) Claim(ctx context.Context, req store.ClaimRequest) (store.Claims, error) {
	if err := req.Validate(); err != nil {
		return store.Claims{}, err
	}
	for i := range req.Leases {
		if err := w.checkSlots(req.Leases[i].Shard.Slot); err != nil {
			return store.Claims{}, err
		}
	}
	type found struct {
		req        store.ClaimRequest
		candidates []sqlstore.Candidate
		first      map[store.RunNo]bool
		claims     store.Claims
	}
	which, of := places(w, req.Leases, func(l store.Lease) int { return l.Shard.Slot })
	all := make([]*found, len(w.databases))
	err := w.each(ctx, which, func(index int, s *Store) (err error) {
		f := &found{req: req}
		f.req.Leases = pick(req.Leases, of[index])
		f.candidates, err = peek(ctx, s, f.req)
		all[index] = f
		return err
	})
	if err != nil {
		return store.Claims{}, err
	}
	home := map[store.RunNo]int{}
	var candidates []sqlstore.Candidate
	for index, f := range all {
		if f != nil {
			candidates = append(candidates, f.candidates...)
			f.req.Limit, f.first = 0, map[store.RunNo]bool{}
			for _, c := range f.candidates {
				home[c.No] = index
			}
		}
	}
	candidates = sqlstore.SortCandidates(candidates)
	order := map[store.RunNo]int{}
	for i, c := range candidates[:min(len(candidates), req.Limit)] {
		f := all[home[c.No]]
		f.first[c.No] = true
		f.req.Limit++
		order[c.No] = i
	}
	err = w.each(ctx, which, func(index int, s *Store) (err error) {
		all[index].claims, err = s.claimFirst(ctx, all[index].req, all[index].first)
		return err
	})
	if err != nil {
		return store.Claims{}, fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	var sum store.Claims
	for _, f := range all {
		if f == nil {
			continue
		}
		c := &f.claims
		sum.Runs, sum.Unservable = append(sum.Runs, c.Runs...), append(sum.Unservable, c.Unservable...)
		sum.More, sum.MoreItems = sum.More || c.More, sum.MoreItems || c.MoreItems
		sum.Now = max(sum.Now, c.Now)
		if c.NextWake != 0 && (sum.NextWake == 0 || c.NextWake < sum.NextWake) {
			sum.NextWake = c.NextWake
		}
		sum.Fenced = append(sum.Fenced, c.Fenced...)
	}
	place := func(c *store.Claimed) int {
		if i, ok := order[c.Run.No]; ok && c.New {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(sum.Runs, func(a, b store.Claimed) int {
		return cmp.Or(cmp.Compare(place(&a), place(&b)), cmp.Compare(a.Run.No, b.Run.No))
	})
	lease := map[store.Shard]int{}
	for i := range req.Leases {
		lease[req.Leases[i].Shard] = i
	}
	slices.SortFunc(sum.Fenced, func(a, b store.Shard) int { return cmp.Compare(lease[a], lease[b]) })
	slices.SortFunc(sum.Unservable, func(a, b store.Unservable) int {
		return cmp.Or(cmp.Compare(a.Shard.Group, b.Shard.Group), cmp.Compare(a.Shard.Slot, b.Shard.Slot),
			cmp.Compare(a.Workflow, b.Workflow))
	})
	return sum, nil
}

// peek returns what a claim would find, in its order.
func peek(ctx context.Context, s *Store, req store.ClaimRequest) ([]sqlstore.Candidate, error) {
	q := &claimQuery{req: &req, workflows: possible(req.Workflows)}
	floor, test := s.times()
	err := s.single(on(ctx, s.looking), "look for ready runs", func(t *tx) error { return q.run(t, floor, test) })
	return q.candidates, err
}

// Sweep implements store.Store. It takes one database after the other.
func (w *Wide) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	at, from := int(req.From.No>>placeBits), req.From
	from.No &= 1<<placeBits - 1
	req.From = from
	if err := req.Validate(); err != nil {
		return store.Swept{}, err
	}
	if len(req.Runs) > 0 {
		return sweepRuns(ctx, w, req)
	}
	for i := range req.Leases {
		if err := w.checkSlots(req.Leases[i].Shard.Slot); err != nil {
			return store.Swept{}, err
		}
	}
	var sum store.Swept
	for index := at; index < len(w.databases); index++ {
		own := req
		own.Leases, own.From = w.leasesIn(index, req.Leases), from
		s, err := w.at(ctx, index)
		if err != nil {
			return sum, err
		}
		swept, err := sweepSome(ctx, s, own, req.Bound()-sum.Rows)
		if err != nil {
			return sum, err
		}
		sum.Rows, sum.Runs, sum.Fenced = sum.Rows+swept.Rows, sum.Runs+swept.Runs, append(sum.Fenced, swept.Fenced...)
		from = store.SweepPlace{}
		switch {
		case !swept.Done:
			sum.Next = swept.Next
			sum.Next.No |= int64(index) << placeBits
			return sum, nil
		case index == len(w.databases)-1:
			sum.Done = true
		case sum.Rows >= req.Bound():
			sum.Next.No = int64(index+1) << placeBits
			return sum, nil
		}
	}
	return sum, nil
}

// placeBits are the bits of a place of a sweep that are the number within a database; those above
// are the database.
const placeBits = 57

// sweepRuns deletes runs by number.
func sweepRuns(ctx context.Context, w *Wide, req store.SweepRequest) (store.Swept, error) {
	byHome := map[int][]store.RunNo{}
	for _, no := range req.Runs {
		home := ofNo(w.place, no)
		byHome[home] = append(byHome[home], no)
	}
	sum := store.Swept{Done: true}
	for index := range w.databases {
		if len(byHome[index]) == 0 {
			continue
		}
		s, err := w.at(ctx, index)
		if err != nil {
			return sum, err
		}
		swept, err := s.Sweep(ctx, store.SweepRequest{Runs: byHome[index]})
		if err != nil {
			return sum, err
		}
		sum.Rows, sum.Runs, sum.Done = sum.Rows+swept.Rows, sum.Runs+swept.Runs, sum.Done && swept.Done
		sum.Kept = append(sum.Kept, swept.Kept...)
	}
	place := map[store.RunNo]int{}
	for i, no := range req.Runs {
		place[no] = i
	}
	slices.SortFunc(sum.Kept, func(a, b store.RunNo) int { return cmp.Compare(place[a], place[b]) })
	return sum, nil
}
