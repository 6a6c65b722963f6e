package memory

import (
	"bytes"
	"context"
	"slices"

	"github.com/stet-run/stet/store"
)

// bury makes dead letters of the items that a run leaves behind, or discards all, or the
// messages of these names.
func (r *run) bury(all bool, names []string) {
	for _, it := range r.items {
		if !pending(it) || !it.Kind.CanBeDead() {
			continue
		}
		it.State = store.Dead
		if all || it.Kind == store.ItemMessage && slices.Contains(names, it.Name) {
			it.State, it.Value, it.Headers = store.Consumed, nil, nil
		}
	}
}

// refuse makes a dead letter of an item that the run's code has no use for.
func (r *run) refuse(it *store.Item, reason []byte) {
	it.State, it.Verdict = store.Dead, bytes.Clone(reason)
	if it.Kind == store.ItemResolution {
		delete(r.itemIDs, it.ID)
		it.ID = store.RefusedID(it.No)
		r.itemIDs[it.ID] = it
	}
}

// unbury makes a run's dead letters new again, except those that it has refused.
func (r *run) unbury() {
	for _, it := range r.items {
		if it.State == store.Dead && it.Verdict == nil && !it.Outdated(r.Incarnation) {
			it.State = store.New
		}
	}
}

// DeadLetters implements store.Store.
func (s *Store) DeadLetters(ctx context.Context, f store.DeadFilter) (store.DeadPage, error) {
	_, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return store.DeadPage{}, err
	}
	limit, below, err := f.Bounds()
	if err != nil {
		return store.DeadPage{}, err
	}
	var letters []store.DeadLetter
	for _, r := range s.runs {
		for _, it := range r.items {
			if it.State != store.Dead || below != 0 && it.No >= below || !matchesDead(r, it, &f) {
				continue
			}
			letter := store.DeadLetter{
				Run: r.No, RunID: r.ID, Workflow: r.Workflow, Status: r.Status, Incarnation: r.Incarnation,
				Item: cloneItem(it), Size: len(it.Value),
			}
			if !f.Values {
				letter.Item.Value = nil
			}
			letters = append(letters, letter)
		}
	}
	slices.SortFunc(letters, func(a, b store.DeadLetter) int { return int(b.Item.No - a.Item.No) })
	page := store.DeadPage{Letters: letters}
	if len(letters) > limit {
		page.Letters = letters[:limit]
		page.Next = store.EncodeCursor(store.RunNo(letters[limit-1].Item.No))
	}
	return page, nil
}

func matchesDead(r *run, it *store.Item, f *store.DeadFilter) bool {
	in := func(n int, contains bool) bool { return n == 0 || contains }
	return in(len(f.Nos), slices.Contains(f.Nos, it.No)) &&
		in(len(f.RunIDs), slices.Contains(f.RunIDs, r.ID)) &&
		in(len(f.Workflows), slices.Contains(f.Workflows, r.Workflow)) &&
		in(len(f.Names), slices.Contains(f.Names, it.Name))
}

// Discard implements store.Store.
func (s *Store) Discard(ctx context.Context, items []store.ItemNo) ([]bool, error) {
	_, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	were, now := make([]bool, len(items)), map[store.ItemNo]bool{}
	for _, r := range s.runs {
		for i, no := range items {
			it := r.item(no)
			if it == nil || it.State != store.Dead && !now[no] {
				continue
			}
			it.State, it.Value, it.Headers = store.Consumed, nil, nil
			were[i], now[no] = true, true
		}
	}
	return were, nil
}
