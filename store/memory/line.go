package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Waiting implements store.Store.
func (s *Store) Waiting(ctx context.Context, q store.WaitingQuery) ([]store.Waiter, error) {
	_, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := q.Validate(); err != nil {
		return nil, err
	}
	compare := (*store.Waiter).Compare
	if q.Admitted {
		compare = func(a, b *store.Waiter) int { return cmp.Compare(a.No, b.No) }
	}
	var found []store.Waiter
	for _, r := range s.runs {
		is := r.waits()
		if q.Admitted {
			is = r.Marks&store.Admitted != 0
		}
		if !is || r.line == nil || r.line.Queue != q.Queue {
			continue
		}
		w := store.Waiter{No: r.No, ID: r.ID, Key: r.line.Key, Priority: r.line.Priority, Due: r.waitsFrom,
			Place: slices.Clone(r.Queue)}
		if q.After == nil || compare(q.After, &w) < 0 {
			found = append(found, w)
		}
	}
	slices.SortFunc(found, func(a, b store.Waiter) int { return compare(&a, &b) })
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	return found, nil
}

// waits reports whether the run waits in a line.
func (r *run) waits() bool {
	return r.line != nil && r.Marks&(store.Held|store.Paused) == store.Held && !r.Status.Terminal() &&
		r.Status != store.Stalled
}

// isCalledByLine reports whether the run is an entity that rests while a run waits in its line (law 34).
func (r *run) isCalledByLine(d *data) bool {
	if r.condition != idle || r.Status != store.Suspended || !store.IsEntity(r.Workflow) {
		return false
	}
	for _, other := range d.runs {
		if other.waits() && other.line.Queue == r.ID {
			return true
		}
	}
	return false
}

// admit carries out an Admit.
func (d *data) admit(r *run, c *store.Command, leases []store.Lease, repeat bool) store.Answer {
	a := store.Answer{Outcome: store.Applied}
	switch {
	case r.line != nil && r.line.Queue == c.Admit && r.Marks&store.Admitted != 0:
		a.Repeated = true
		a.Claimed = repeat && c.Claim && r.condition == claimed && d.leads(leases, r.Shard)
	case r.Status.Terminal():
		a.Outcome = store.Ended
	case !r.waits() || r.line.Queue != c.Admit || r.condition == claimed:
		a.Outcome = store.Duplicate
	default:
		r.Marks = r.Marks&^store.Held | store.Admitted
		r.condition, r.WakeAt = ready, 0
		if a.Claimed = c.Claim && d.leads(leases, r.Shard) && storekit.Claimable(&r.Run, true, nil, d.now); a.Claimed {
			d.claim(r, false)
		}
	}
	a.Run = r.answer()
	return a
}
