package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/stet-run/stet/store"
)

// sweep is one act of Sweep.
type sweep struct {
	*data
	now    store.Time
	shards map[store.Shard]bool
	left   int // rows that may still be deleted
	store.Swept
}

// Sweep implements store.Store.
func (s *Store) Sweep(ctx context.Context, req store.SweepRequest) (store.Swept, error) {
	now, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return store.Swept{}, err
	}
	if err := req.Validate(); err != nil {
		return store.Swept{}, err
	}
	w := sweep{data: s.data, now: now, shards: map[store.Shard]bool{}, left: req.Bound()}
	if len(req.Runs) > 0 {
		w.Done = w.named(req.Runs)
		if w.Rows > 0 {
			s.changed(s)
		}
		return w.Swept, nil
	}
	for i := range req.Leases {
		if s.current(&req.Leases[i]) == nil {
			w.Fenced = append(w.Fenced, req.Leases[i].Shard)
			continue
		}
		w.shards[req.Leases[i].Shard] = true
	}
	w.Next = req.From
	w.Done = w.ended(req.Rules) && w.former() && (!req.Items || w.consumed())
	if w.Rows > 0 {
		s.changed(s)
	}
	return w.Swept, nil
}

// take reports how many of n rows may be deleted, and counts them.
func (w *sweep) take(n int) int {
	n = min(n, w.left)
	w.left -= n
	w.Rows += n
	return n
}

// ended deletes runs. It reports whether the stage is over.
func (w *sweep) ended(rules []store.Retention) bool {
	if w.Next.Stage > 0 {
		return true
	}
	for ; w.Next.Rule <= len(rules); w.Next = (store.SweepPlace{Rule: w.Next.Rule + 1}) {
		var expired []*run
		for _, r := range w.runs {
			var over bool
			if w.Next.Rule == len(rules) {
				over = r.Expires > 0 && r.Expires <= w.now
			} else {
				rule := &rules[w.Next.Rule]
				over = r.Expires == 0 && r.Workflow == rule.Workflow && r.Status == rule.Status && r.Ended <= rule.Before(w.now)
			}
			if over && !w.kept(r) && w.after(r) {
				expired = append(expired, r)
			}
		}
		slices.SortFunc(expired, func(a, b *run) int {
			return cmp.Or(cmp.Compare(a.due(), b.due()), cmp.Compare(a.No, b.No))
		})
		for _, r := range expired {
			if !w.delete(r) {
				return false
			}
			w.Next.Ended, w.Next.No = r.due(), int64(r.No)
		}
	}
	w.Next = store.SweepPlace{Stage: 1, Rule: len(rules)}
	return true
}

// after reports whether a run comes after the place of the pass.
func (w *sweep) after(r *run) bool {
	return r.due() > w.Next.Ended || r.due() == w.Next.Ended && int64(r.No) > w.Next.No
}

// due returns the time by which a pass orders an ended run.
func (r *run) due() store.Time { return cmp.Or(max(r.Expires, 0), r.Ended) }

// named deletes runs. It reports whether that is done.
func (w *sweep) named(nos []store.RunNo) bool {
	for _, no := range nos {
		switch r := w.runs[no]; {
		case r == nil:
		case !r.Status.Terminal() || w.needed(r):
			w.Kept = append(w.Kept, no)
		case !w.delete(r):
			return false
		}
	}
	return true
}

// kept reports whether an ended run stays whatever its retention.
func (w *sweep) kept(r *run) bool { return !w.shards[r.Shard] || w.needed(r) }

// needed reports whether somebody works on an ended run, will, or may ask for it.
func (w *sweep) needed(r *run) bool {
	if r.condition != idle || w.dirty[r] {
		return true
	}
	parent := w.runs[r.Parent]
	return parent != nil && !parent.Status.Terminal() && r.Created > parent.Began &&
		parent.entries[entryKey{parent.Incarnation, r.ParentLoc}] != nil
}

// delete deletes the rows of a run, and then the run. It reports false if that takes more
// than this act.
func (w *sweep) delete(r *run) bool {
	r.Marks |= store.Expiring
	drop(r.entries, w.take(len(r.entries)))
	for _, it := range r.items[:w.take(len(r.items))] {
		delete(r.itemIDs, it.ID)
		r.items = r.items[1:]
	}
	for key, f := range r.feeds {
		f.items = f.items[w.take(len(f.items)):]
		if len(f.items) > 0 || w.take(1) == 0 {
			break
		}
		delete(r.feeds, key)
	}
	r.audit = r.audit[w.take(len(r.audit)):]
	if len(r.entries)+len(r.items)+len(r.feeds)+len(r.audit) > 0 || w.take(1) == 0 {
		return false
	}
	delete(w.runs, r.No)
	delete(w.ids, r.ID)
	w.Runs++
	return true
}

// drop deletes n elements.
func drop[K comparable, V any](m map[K]V, n int) {
	for key := range m {
		if n == 0 {
			return
		}
		delete(m, key)
		n--
	}
}

// former deletes entries of former incarnations. It reports whether the stage is
// over.
func (w *sweep) former() bool {
	if w.Next.Stage > 1 {
		return true
	}
	for _, no := range slices.Sorted(maps.Keys(w.runs)) {
		r := w.runs[no]
		if int64(no) <= w.Next.No || !w.shards[r.Shard] {
			continue
		}
		for key := range r.entries {
			if key.incarnation >= r.Incarnation {
				continue
			}
			if w.take(1) == 0 {
				return false
			}
			delete(r.entries, key)
		}
		w.Next.No = int64(no)
	}
	w.Next = store.SweepPlace{Stage: 2, Rule: w.Next.Rule}
	return true
}

// consumed deletes items that are done with. It reports whether the stage is over.
func (w *sweep) consumed() bool {
	var old []*store.Item
	of := map[*store.Item]*run{}
	for _, r := range w.runs {
		for _, it := range r.items {
			done := it.State == store.Consumed && (it.Kind != store.ItemUpdate || it.Verdict != nil)
			if done && it.Sent <= w.now-store.Time(it.Window()) && int64(it.No) > w.Next.No && w.shards[r.Shard] {
				old = append(old, it)
				of[it] = r
			}
		}
	}
	slices.SortFunc(old, func(a, b *store.Item) int { return cmp.Compare(a.No, b.No) })
	for _, it := range old {
		if w.take(1) == 0 {
			return false
		}
		r := of[it]
		delete(r.itemIDs, it.ID)
		r.items = slices.DeleteFunc(r.items, func(other *store.Item) bool { return other == it })
		w.Next.No = int64(it.No)
	}
	return true
}
