package redis

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// List implements store.Store.
func (s *Store) List(ctx context.Context, f store.Filter) (store.Page, error) {
	limit, below, err := f.Bounds()
	if err != nil {
		return store.Page{}, err
	}
	var page store.Page
	err = s.search(ctx, &f, f.Values, below, limit+1, func(run *store.Run) bool {
		page.Runs = append(page.Runs, *run)
		return len(page.Runs) <= limit
	})
	if err != nil {
		return store.Page{}, err
	}
	if len(page.Runs) > limit {
		page.Runs = page.Runs[:limit]
		page.Next = store.EncodeCursor(page.Runs[limit-1].No)
	}
	return page, nil
}

// Count implements store.Store.
func (s *Store) Count(ctx context.Context, f store.Filter) ([]store.Tally, error) {
	if _, _, err := f.Bounds(); err != nil {
		return nil, err
	}
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
		err = s.search(ctx, &f, false, 0, searchWindow, func(run *store.Run) bool {
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
	case len(f.Workflows) > 0 && len(f.Workflows) <= 10:
		statuses := f.Statuses
		if len(statuses) == 0 {
			statuses = store.AllStatuses()
		}
		var list []string
		for _, w := range f.Workflows {
			for _, st := range statuses {
				list = append(list, "l:"+strconv.Itoa(int(st))+":"+w)
			}
		}
		return list
	}
	return []string{"R"}
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

// search calls fn for the runs below a number that match, or for all with 0, newest
// first, until it returns false. want is how many may be enough. It looks at windows
// of runs, so what it finds is not of one moment.
func (s *Store) search(ctx context.Context, f *store.Filter, values bool, below store.RunNo, want int,
	fn func(*store.Run) bool) error {
	var r reader
	if len(f.Nos)+len(f.IDs) > 0 {
		runs, err := s.named(ctx, &r, f, values)
		if err != nil {
			return err
		}
		for i := range runs {
			if (below == 0 || runs[i].No < below) && matches(&runs[i], f) && !fn(&runs[i]) {
				break
			}
		}
		return r.err
	}
	window := min(max(want, 20), searchWindow)
	index, way := indexes(f), byIndexes
	if len(f.Claimed) > 0 {
		index, way = claimedGroups(f), byClaimed
	}
	// Each part is a sorted list that is read in windows as the merge needs it.
	lists := make([][]store.Run, s.parts)
	next := make([]store.RunNo, s.parts) // where a part's next window begins
	more := make([]bool, s.parts)
	for part := range lists {
		next[part], more[part] = below, true
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
			if next[part] != 0 {
				from = strconv.FormatInt(int64(next[part]), 10)
			}
			a.text(way, flag(values), from)
			a.count(window)
			each(&a, index, func(name string) { a.text(name) })
			if way == byClaimed {
				each(&a, f.Claimed, a.shard)
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
				next[part] = lists[part][len(lists[part])-1].No
			}
		}
		return r.err
	}
	for {
		if err := fill(); err != nil {
			return err
		}
		newest := -1
		for part := range lists {
			if len(lists[part]) > 0 && (newest < 0 || lists[part][0].No > lists[newest][0].No) {
				newest = part
			}
		}
		if newest < 0 {
			return nil
		}
		run := &lists[newest][0]
		lists[newest] = lists[newest][1:]
		if matches(run, f) && !fn(run) {
			return nil
		}
	}
}

// named reads the runs that a filter names, newest first.
func (s *Store) named(ctx context.Context, r *reader, f *store.Filter, values bool) ([]store.Run, error) {
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
			calls = append(calls, call{part, append([]string{way, flag(values), strconv.Itoa(len(list))}, list...)})
		}
	}
	if len(calls) == 0 {
		_, err := s.time(ctx)
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
