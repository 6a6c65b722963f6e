package redis

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/stet-run/stet/store"
)

// loadParts is how many parts load at the same time, until the answers show that the runs are
// small: each part may exceed its bound by a run.
const loadParts = 4

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, runs []store.RunNo) ([]store.Snapshot, []store.RunNo, error) {
	parts, places := byPart(s, runs, func(no *store.RunNo) int { return int(max(int64(*no), 0) % int64(s.slots)) })
	var r reader
	found := map[store.RunNo]store.Snapshot{}
	bytes := 0
	for together := loadParts; len(parts) > 0 && bytes < store.LoadBytes; together *= loadParts {
		if bytes > store.LoadBytes/loadParts {
			together = loadParts
		}
		asked := parts[:min(len(parts), together)]
		var calls []call
		for _, part := range asked {
			var a args
			each(&a, places[part], func(i int) { a.int(int64(runs[i])) })
			calls = append(calls, call{part, a.list})
		}
		replies, err := s.run(ctx, loadScript, "load runs", calls...)
		if err != nil {
			return nil, nil, err
		}
		var left []int
		for k, m := range replies {
			f := r.tuple(m, 2)
			looked := int(r.int(f[0]))
			for _, row := range r.list(f[1]) {
				f := r.tuple(row, 3)
				snap := store.Snapshot{Run: r.run(f[0], s.slots), Entries: r.heads(r.list(f[1])), Items: r.items(f[2])}
				found[snap.Run.No] = snap
				bytes += snap.Bytes()
			}
			if r.err == nil && (looked < 1 || looked > len(places[asked[k]])) {
				r.bad("the count of loaded runs cannot be read")
			}
			if r.err != nil {
				return nil, nil, r.err
			}
			if places[asked[k]] = places[asked[k]][looked:]; len(places[asked[k]]) > 0 {
				left = append(left, asked[k])
			}
		}
		parts = append(left, parts[len(asked):]...)
	}
	var unseen []int
	for _, part := range parts {
		unseen = append(unseen, places[part]...)
	}
	slices.Sort(unseen)
	var left []store.RunNo
	for _, i := range unseen {
		left = append(left, runs[i])
	}
	var list []store.Snapshot
	for _, no := range runs {
		if snap, ok := found[no]; ok {
			list = append(list, snap)
		}
	}
	return list, left, r.err
}

// heads reads locations and heads in turn, without large values.
func (r *reader) heads(flat []reply) []store.Entry {
	entries := make([]store.Entry, 0, len(flat)/2)
	for i := 0; i+1 < len(flat); i += 2 {
		entries = append(entries, r.entry(flat[i], flat[i+1]))
	}
	slices.SortFunc(entries, func(a, b store.Entry) int { return cmp.Compare(a.Loc, b.Loc) })
	return entries
}

func (r *reader) entry(loc, head reply) store.Entry {
	e, err := entryOf(r.text(loc), r.text(head))
	if err != nil && r.err == nil {
		r.err = err
	}
	return e
}

// items reads items and puts them in the order of their numbers.
func (r *reader) items(m reply) []store.Item {
	var items []store.Item
	for _, it := range r.list(m) {
		items = append(items, r.item(it))
	}
	slices.SortFunc(items, func(a, b store.Item) int { return cmp.Compare(a.No, b.No) })
	return items
}

// History implements store.Store. The locations are read first, and then the entries
// that are asked for.
func (s *Store) History(ctx context.Context, q store.HistoryQuery) ([]store.Entry, error) {
	if q.Run < 0 || q.Locs != nil && len(q.Locs) == 0 {
		_, err := s.time(ctx, 0)
		return nil, err
	}
	part, key := s.partOfRun(q.Run), []string{strconv.FormatInt(int64(q.Run), 10), strconv.Itoa(q.Incarnation)}
	locs := slices.Clone(q.Locs)
	var r reader
	if q.Locs == nil {
		m, err := s.one(ctx, historyScript, "read locations", part, append(key, "0", "0")...)
		if err != nil {
			return nil, err
		}
		for _, loc := range r.list(m) {
			locs = append(locs, r.text(loc))
		}
	}
	slices.Sort(locs)
	locs = slices.DeleteFunc(slices.Compact(locs), func(loc string) bool { return loc <= q.After })
	var entries []store.Entry
	for len(locs) > 0 {
		chunk := locs[:min(len(locs), historyChunk)]
		var a args
		a.text(key...)
		a.bool(q.Values)
		each(&a, chunk, func(loc string) { a.text(loc) })
		m, err := s.one(ctx, historyScript, "read history", part, a.list...)
		if err != nil {
			return nil, err
		}
		answer := r.tuple(m, 2)
		looked, f := int(r.int(answer[0])), r.list(answer[1])
		if r.err == nil && (looked < 1 || looked > len(chunk)) {
			r.bad("the count of entries that were read cannot be read")
		}
		if r.err != nil {
			return nil, r.err
		}
		locs = locs[looked:]
		for i := 0; i+2 < len(f); i += 3 {
			e := r.entry(f[i], f[i+1])
			if !q.Values {
				e.Value = nil
			} else if !f[i+2].IsNil() {
				e.Value = bytesOf(r.text(f[i+2]))
			}
			if entries = append(entries, e); len(entries) == q.Limit {
				return entries, r.err
			}
		}
	}
	return entries, r.err
}

// historyChunk is how many entries are read at once, if they are small.
const historyChunk = 500

// Inbox implements store.Store. A large inbox is read in pages: what arrives meanwhile may be in the later ones.
func (s *Store) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	if run < 0 {
		_, err := s.time(ctx, 0)
		return nil, err
	}
	var r reader
	var items []store.Item
	named, after := len(ids) > 0, store.ItemNo(0)
	for {
		var a args
		a.int(int64(run))
		a.int(int64(after))
		each(&a, ids, func(id string) { a.text(id) })
		m, err := s.one(ctx, itemsScript, "read an inbox", s.partOfRun(run), a.list...)
		if err != nil {
			return nil, err
		}
		answer := r.tuple(m, 2)
		left, page := int(r.int(answer[0])), r.items(answer[1])
		items = append(items, page...)
		switch {
		case r.err == nil && (left < 0 || left > 0 && len(page) == 0 || named && left >= len(ids)):
			r.bad("the count of items that are left cannot be read")
			fallthrough
		case r.err != nil:
			return nil, r.err
		case left == 0:
			slices.SortFunc(items, func(a, b store.Item) int { return cmp.Compare(a.No, b.No) })
			return slices.CompactFunc(items, func(a, b store.Item) bool { return a.No == b.No }), nil
		case named:
			ids = ids[len(ids)-left:]
		default:
			after = page[len(page)-1].No
		}
	}
}

// Waiting implements store.Store: this store has no lines.
func (s *Store) Waiting(ctx context.Context, q store.WaitingQuery) ([]store.Waiter, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	_, err := s.time(ctx, 0)
	return nil, err
}

// Pending implements store.Store.
func (s *Store) Pending(ctx context.Context, q store.PendingQuery) (sum store.Pending, err error) {
	if q.Run < 0 || q.Kinds != nil && len(q.Kinds) == 0 {
		_, err := s.time(ctx, 0)
		return sum, err
	}
	var a args
	a.int(int64(q.Run))
	a.text(q.Name)
	each(&a, q.Kinds, func(k store.ItemKind) { a.int(int64(k)) })
	m, err := s.one(ctx, pendingScript, "count an inbox", s.partOfRun(q.Run), a.list...)
	if err != nil {
		return sum, err
	}
	var r reader
	f := r.tuple(m, 3)
	sum.Items, sum.Bytes, sum.Last = int(r.int(f[0])), r.int(f[1]), r.text(f[2])
	return sum, r.err
}

// Feeds implements store.Store.
func (s *Store) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	runs := slices.Compact(slices.Sorted(slices.Values(q.Runs)))
	runs = slices.DeleteFunc(runs, func(no store.RunNo) bool { return no < 1 })
	parts, places := byPart(s, runs, func(no *store.RunNo) int { return int(int64(*no) % int64(s.slots)) })
	var calls []call
	for _, part := range parts {
		var a args
		each(&a, places[part], func(i int) { a.int(int64(runs[i])) })
		calls = append(calls, call{part, a.list})
	}
	replies, err := s.run(ctx, feedsScript, "read feeds", calls...)
	if err != nil {
		return nil, err
	}
	var r reader
	var feeds []store.Feed
	for k, m := range replies {
		of := r.tuple(m, len(places[parts[k]]))
		for j, i := range places[parts[k]] {
			fields := r.list(of[j])
			for n := 0; n+1 < len(fields); n += 2 {
				f := r.feed(runs[i], r.text(fields[n]), r.text(fields[n+1]))
				if q.Name != "" && f.Name != q.Name {
					continue
				}
				if !q.Values {
					f.Value = nil
				}
				feeds = append(feeds, f)
			}
		}
	}
	slices.SortFunc(feeds, func(a, b store.Feed) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(flag(a.Stream), flag(b.Stream)), cmp.Compare(a.Name, b.Name))
	})
	return feeds, r.err
}

// feed reads a field of the hash f: see publish in commit.lua.
func (r *reader) feed(run store.RunNo, field, kept string) store.Feed {
	last, rest, _ := strings.Cut(kept, ";")
	at, val, ok := strings.Cut(rest, ";")
	if !ok || field == "" {
		r.bad("a feed cannot be read")
		return store.Feed{}
	}
	f := store.Feed{Run: run, Stream: field[0] == 's', Name: field[1:], Last: r.number(last),
		At: store.Time(r.number(at))}
	if f.Stream {
		if val != "" {
			f.Dropped = r.number(val)
		}
		return f
	}
	f.Value = bytesOf(val)
	f.Size = len(f.Value)
	return f
}

// Stream implements store.Store.
func (s *Store) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	limit, err := q.Bounds()
	if err != nil || q.Run < 1 {
		return nil, err
	}
	var a args
	a.int(int64(q.Run))
	a.text(q.Name)
	a.int(q.After)
	a.count(limit)
	a.count(store.MaxStreamRead)
	m, err := s.one(ctx, streamScript, "read a stream", s.partOfRun(q.Run), a.list...)
	if err != nil {
		return nil, err
	}
	var r reader
	f := r.tuple(m, 2)
	pos := r.int(f[0])
	var items []store.StreamItem
	for _, kept := range r.list(f[1]) {
		text := r.text(kept)
		i := strings.IndexFunc(text, func(c rune) bool { return c < '0' || c > '9' })
		if i < 1 {
			r.bad("an item of a stream cannot be read")
			break
		}
		items = append(items, store.StreamItem{Pos: pos, At: store.Time(r.number(text[:i])), Rewound: text[i] == 'r',
			Value: bytesOf(text[i+1:])})
		pos++
	}
	return items, r.err
}

// Audit implements store.Store.
func (s *Store) Audit(ctx context.Context, run store.RunNo) ([]store.Audit, error) {
	m, err := s.one(ctx, auditScript, "read audits", s.partOfRun(max(run, 0)), strconv.FormatInt(int64(run), 10))
	if err != nil {
		return nil, err
	}
	var r reader
	var list []store.Audit
	for _, kept := range r.list(m) {
		e, err := auditOf(r.text(kept))
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, r.err
}
