package redis

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// List implements store.Store.
func (s *Store) List(ctx context.Context, f store.Filter) (store.Page, error) {
	limit, after, err := bounds(&f)
	if err != nil {
		return store.Page{}, err
	}
	var page store.Page
	err = s.search(ctx, &f, after, limit+1, func(run *store.Run) bool {
		page.Runs = append(page.Runs, *run)
		return len(page.Runs) <= limit
	})
	if err != nil {
		return store.Page{}, err
	}
	if len(page.Runs) > limit {
		page.Runs = page.Runs[:limit]
		if last := &page.Runs[limit-1]; f.ByEnded {
			page.Next = store.PlaceOf(last).Encode()
		} else {
			page.Next = store.EncodeCursor(last.No)
		}
	}
	return page, nil
}

// bounds returns the length of a page, and the place after which it begins: by numbers that
// without a time.
func bounds(f *store.Filter) (limit int, after store.Place, err error) {
	if f.ByEnded {
		return f.After()
	}
	if limit, after.No, err = f.Bounds(); after.No == 0 {
		after.No = math.MaxInt64
	}
	return limit, after, err
}

// place returns the place of a run in a list.
func place(r *store.Run, byEnded bool) store.Place {
	if byEnded {
		return store.PlaceOf(r)
	}
	return store.Place{No: r.No}
}

// Count implements store.Store.
func (s *Store) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	if _, _, err := f.Bounds(); err != nil {
		return nil, err
	}
	plain := f
	plain.ByEnded, plain.Values = false, false
	counts := storekit.Counts{}
	var err error
	if f.Plain() {
		var r reader
		replies, failed := s.everywhere(ctx, countScript, "count runs")
		err = failed
		for _, m := range replies {
			t := r.list(m)
			for i := 0; i+2 < len(t); i += 3 {
				k := storekit.Counted{Workflow: r.text(t[i]), Status: store.Status(r.int(t[i+1]))}
				if matches(&store.Run{Workflow: k.Workflow, Status: k.Status}, &f) {
					counts[k] += r.int(t[i+2])
				}
			}
		}
		if err == nil {
			err = r.err
		}
	} else {
		err = s.search(ctx, &plain, store.Place{No: math.MaxInt64}, searchWindow, func(run *store.Run) bool {
			counts[storekit.Counted{Workflow: run.Workflow, Status: run.Status}]++
			return true
		})
	}
	if err != nil {
		return nil, err
	}
	return counts.Tallies(f.Most), nil
}

func matches(r *store.Run, f *store.Filter) bool {
	in := func(n int, contains bool) bool { return n == 0 || contains }
	return !(f.HidesEntities() && store.IsEntity(r.Workflow)) &&
		in(len(f.IDs), slices.Contains(f.IDs, r.ID)) &&
		in(len(f.Nos), slices.Contains(f.Nos, r.No)) &&
		strings.HasPrefix(r.ID, f.IDPrefix) &&
		in(len(f.Workflows), slices.Contains(f.Workflows, r.Workflow)) &&
		in(len(f.Statuses), slices.Contains(f.Statuses, r.Status)) &&
		r.Marks&f.Marks == f.Marks &&
		(f.Parent == 0 || r.Parent == f.Parent) &&
		tagged(r, f) &&
		r.Created >= f.CreatedFrom && (f.CreatedBefore == 0 || r.Created < f.CreatedBefore) &&
		r.Ended >= f.EndedFrom && (f.EndedBefore == 0 || r.Ended > 0 && r.Ended < f.EndedBefore) &&
		in(len(f.Claimed), r.Claimed && slices.Contains(f.Claimed, r.Shard))
}

// tagged reports whether a run has of each key one of the tags.
func tagged(r *store.Run, f *store.Filter) bool {
	if len(f.Tags) == 0 {
		return true
	}
	for key, values := range f.TagValues() {
		if !slices.ContainsFunc(r.Tags,
			func(tag store.Pair) bool { return tag.Key == key && slices.Contains(values, tag.Value) }) {
			return false
		}
	}
	return true
}

// indexes returns indexes of a part whose union has all runs that match.
func indexes(f *store.Filter) []string {
	switch {
	case f.Parent != 0:
		return []string{"c:" + strconv.FormatInt(int64(f.Parent), 10)}
	case len(f.Tags) > 0:
		var list []string
		for _, tag := range f.Tags {
			if tag.Key == f.Tags[0].Key {
				list = append(list, "t:"+tag.Key+"="+tag.Value)
			}
		}
		return list
	}
	return []string{"R"}
}

// listings returns statuses of which a part's lists by workflow and status, or by ends, are
// to be read, and the workflows, none for all.
func listings(f *store.Filter) (statuses, workflows []string) {
	if !f.ByEnded && (f.Parent != 0 || len(f.Tags) > 0 || len(f.Workflows)+len(f.Statuses) == 0) {
		return nil, nil
	}
	for _, st := range store.AllStatuses() {
		if (len(f.Statuses) == 0 || slices.Contains(f.Statuses, st)) && (!f.ByEnded || st.Terminal()) {
			statuses = append(statuses, strconv.Itoa(int(st)))
		}
	}
	workflows = slices.Clone(f.Workflows)
	slices.Sort(workflows)
	return statuses, slices.Compact(workflows)
}

// claimedGroups returns the groups of the shards whose claimed runs are wanted.
func claimedGroups(f *store.Filter) []string {
	var groups []string
	for _, shard := range f.Claimed {
		if !slices.Contains(groups, shard.Group) {
			groups = append(groups, shard.Group)
		}
	}
	return groups
}

// searchWindow is how many runs are read at once.
const searchWindow = 500

// search calls fn for the runs after a place that match, in the order of the list, until it
// returns false. want is how many may be enough. It looks at windows
// of runs, so what it finds is not of one moment.
func (s *Store) search(ctx context.Context, f *store.Filter, after store.Place, want int,
	fn func(*store.Run) bool) error {
	var r reader
	if len(f.Nos)+len(f.IDs) > 0 {
		runs, err := s.named(ctx, &r, f)
		if err != nil {
			return err
		}
		slices.SortFunc(runs, func(a, b store.Run) int {
			x, y := place(&a, f.ByEnded), place(&b, f.ByEnded)
			return cmp.Or(cmp.Compare(y.Ended, x.Ended), cmp.Compare(y.No, x.No))
		})
		for i := range runs {
			run := &runs[i]
			if after.Before(place(run, f.ByEnded)) && (!f.ByEnded || run.Ended > 0) && matches(run, f) && !fn(run) {
				break
			}
		}
		return r.err
	}
	window := min(max(want, 20), searchWindow)
	index, way := indexes(f), byIndexes
	statuses, workflows := listings(f)
	switch {
	case f.ByEnded:
		way = byEnds
	case len(f.Claimed) > 0:
		index, way = claimedGroups(f), byClaimed
	case len(statuses) > 0:
		way = byListings
	}
	// Each part is a sorted list that is read in windows as the merge needs it.
	lists := make([][]store.Run, s.parts)
	next := make([]store.Place, s.parts) // after which a part's next window begins
	more := make([]bool, s.parts)
	for part := range lists {
		next[part], more[part] = after, true
	}
	fill := func() error {
		var parts []int
		var calls []call
		for part := range lists {
			if len(lists[part]) > 0 || !more[part] {
				continue
			}
			var a args
			from := "+inf"
			if no := next[part].No; no != math.MaxInt64 {
				from = strconv.FormatInt(int64(no), 10)
			}
			a.text(listing(way, f)...)
			a.text(from)
			a.count(window)
			name := func(name string) { a.text(name) }
			switch way {
			case byEnds, byListings:
				a.text(strconv.FormatInt(int64(next[part].Ended), 10), flag(f.HidesEntities()))
				each(&a, statuses, name)
				each(&a, workflows, name)
			case byClaimed:
				each(&a, index, name)
				each(&a, f.Claimed, a.shard)
			default:
				each(&a, index, name)
			}
			parts, calls = append(parts, part), append(calls, call{part, a.list})
		}
		if len(calls) == 0 {
			return nil
		}
		replies, err := s.run(ctx, listScript, "list runs", calls...)
		if err != nil {
			return err
		}
		for i, m := range replies {
			part := parts[i]
			for _, row := range r.list(m) {
				lists[part] = append(lists[part], r.run(row, s.slots))
			}
			if more[part] = len(lists[part]) == window; len(lists[part]) > 0 {
				next[part] = place(&lists[part][len(lists[part])-1], f.ByEnded)
			}
		}
		return r.err
	}
	for {
		if err := fill(); err != nil {
			return err
		}
		first := -1
		for part := range lists {
			if len(lists[part]) > 0 &&
				(first < 0 || place(&lists[part][0], f.ByEnded).Before(place(&lists[first][0], f.ByEnded))) {
				first = part
			}
		}
		if first < 0 {
			return nil
		}
		run := &lists[first][0]
		lists[first] = lists[first][1:]
		if matches(run, f) && !fn(run) {
			return nil
		}
	}
}

// listing is how each call of the list script begins: by what it looks for runs, and how much of their values it
// returns.
func listing(way string, f *store.Filter) []string {
	return []string{way, flag(f.Values), strconv.Itoa(f.Longest)}
}

// named reads the runs that a filter names, newest first.
func (s *Store) named(ctx context.Context, r *reader, f *store.Filter) ([]store.Run, error) {
	nosByPart, idsByPart := map[int][]string{}, map[int][]string{}
	for _, no := range f.Nos {
		if no > 0 {
			part := s.partOfRun(no)
			nosByPart[part] = append(nosByPart[part], strconv.FormatInt(int64(no), 10))
		}
	}
	if len(f.Nos) == 0 {
		for _, id := range f.IDs {
			parts := []int{s.partOf(s.slotOf(id))}
			if no := replaced(id); no > 0 {
				parts = append(parts, s.partOfRun(no))
			}
			for _, part := range parts {
				idsByPart[part] = append(idsByPart[part], id)
			}
		}
	}
	var calls []call
	for way, lists := range map[string]map[int][]string{byNumbers: nosByPart, byIDs: idsByPart} {
		for part, list := range lists {
			calls = append(calls, call{part, append(append(listing(way, f), strconv.Itoa(len(list))), list...)})
		}
	}
	if len(calls) == 0 {
		_, err := s.time(ctx, 0)
		return nil, err
	}
	replies, err := s.run(ctx, listScript, "find runs", calls...)
	if err != nil {
		return nil, err
	}
	var runs []store.Run
	for _, m := range replies {
		for _, row := range r.list(m) {
			runs = append(runs, r.run(row, s.slots))
		}
	}
	slices.SortFunc(runs, func(a, b store.Run) int { return cmp.Compare(b.No, a.No) })
	return slices.CompactFunc(runs, func(a, b store.Run) bool { return a.No == b.No }), nil
}
