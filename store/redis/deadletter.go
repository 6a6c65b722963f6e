package redis

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/stet-run/stet/store"
)

// DeadLetters implements store.Store.
func (s *Store) DeadLetters(ctx context.Context, f store.DeadFilter) (store.DeadPage, error) {
	limit, below, err := f.Bounds()
	if err != nil {
		return store.DeadPage{}, err
	}
	var r reader
	lists := make([][]store.DeadLetter, s.parts)
	next, more := make([]store.ItemNo, s.parts), make([]bool, s.parts)
	for part := range lists {
		next[part], more[part] = below, true
	}
	var page store.DeadPage
	for {
		if err := s.deadWindows(ctx, &r, lists, next, more); err != nil {
			return store.DeadPage{}, err
		}
		newest := -1
		for part := range lists {
			if len(lists[part]) > 0 && (newest < 0 || lists[part][0].Item.No > lists[newest][0].Item.No) {
				newest = part
			}
		}
		if newest < 0 {
			return page, nil
		}
		letter := lists[newest][0]
		lists[newest] = lists[newest][1:]
		if !matchesDead(&letter, &f) {
			continue
		}
		if len(page.Letters) == limit {
			page.Next = store.EncodeCursor(store.RunNo(page.Letters[limit-1].Item.No))
			return page, nil
		}
		if !f.Values {
			letter.Item.Value = nil
		}
		page.Letters = append(page.Letters, letter)
	}
}

// deadWindows reads the next windows of the parts whose last ones are used up.
func (s *Store) deadWindows(ctx context.Context, r *reader, lists [][]store.DeadLetter, next []store.ItemNo,
	more []bool) error {
	const window = 200
	var parts []int
	var calls []call
	for part := range lists {
		if len(lists[part]) > 0 || !more[part] {
			continue
		}
		from := "+inf"
		if next[part] != 0 {
			from = strconv.FormatInt(int64(next[part]), 10)
		}
		parts, calls = append(parts, part), append(calls, call{part, []string{from, strconv.Itoa(window)}})
	}
	if len(calls) == 0 {
		return nil
	}
	replies, err := s.run(ctx, deadScript, "list dead letters", calls...)
	if err != nil {
		return err
	}
	for i, m := range replies {
		part := parts[i]
		for _, row := range r.list(m) {
			f := r.tuple(row, 6)
			letter := store.DeadLetter{
				Item: r.item(f[0]), Run: store.RunNo(r.int(f[1])), RunID: r.text(f[2]), Workflow: r.text(f[3]),
				Status: store.Status(r.int(f[4])), Incarnation: int(r.int(f[5])),
			}
			letter.Size = len(letter.Item.Value)
			lists[part] = append(lists[part], letter)
		}
		if more[part] = len(lists[part]) == window; len(lists[part]) > 0 {
			next[part] = lists[part][len(lists[part])-1].Item.No
		}
	}
	return r.err
}

func matchesDead(l *store.DeadLetter, f *store.DeadFilter) bool {
	in := func(n int, contains bool) bool { return n == 0 || contains }
	return in(len(f.Nos), slices.Contains(f.Nos, l.Item.No)) &&
		in(len(f.RunIDs), slices.Contains(f.RunIDs, l.RunID)) &&
		in(len(f.Workflows), slices.Contains(f.Workflows, l.Workflow)) &&
		in(len(f.Names), slices.Contains(f.Names, l.Item.Name))
}

// Discard implements store.Store. It is one act for each part.
func (s *Store) Discard(ctx context.Context, items []store.ItemNo) ([]bool, error) {
	parts, places := byPart(s, items, func(no *store.ItemNo) int { return int(max(int64(*no), 0) % int64(s.slots)) })
	slices.SortFunc(parts, cmp.Compare)
	var calls []call
	for _, part := range parts {
		var a args
		each(&a, places[part], func(i int) { a.int(int64(items[i])) })
		calls = append(calls, call{part, a.list})
	}
	replies, err := s.run(ctx, discardScript, "discard dead letters", calls...)
	if err != nil {
		return nil, err
	}
	var r reader
	were := make([]bool, len(items))
	for k, m := range replies {
		f := r.tuple(m, len(places[parts[k]]))
		for j, i := range places[parts[k]] {
			were[i] = r.text(f[j]) == "1"
		}
	}
	return were, r.err
}
