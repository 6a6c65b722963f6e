package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/stet-run/stet/store"
)

// feedKey names a feed of a run.
type feedKey struct {
	stream bool
	name   string
}

// feed is a value, or a stream with its items.
type feed struct {
	store.Feed
	items []store.StreamItem
}

// publish writes what a turn shows to readers.
func (r *run) publish(t *store.Turn, now store.Time) {
	for i := range t.Values {
		f := r.feed(feedKey{false, t.Values[i].Name})
		f.Last, f.At, f.Value = f.Last+1, now, bytes.Clone(t.Values[i].Value)
		f.Size = len(f.Value)
	}
	if t.Rewound {
		for key, f := range r.feeds {
			if key.stream {
				f.add(store.StreamItem{At: now, Rewound: true})
			}
		}
	}
	var f *feed
	for i := range t.Appends {
		a := &t.Appends[i]
		if f == nil || f.Name != a.Name { // mostly many of one stream
			f = r.feed(feedKey{true, a.Name})
		}
		f.add(store.StreamItem{At: now, Value: bytes.Clone(a.Value)})
		if a.Keep > 0 {
			f.drop(f.Last - a.Keep)
		}
	}
	if len(t.Tags) > 0 {
		r.Tags = store.MergeTags(r.Tags, t.Tags)
	}
}

// feed returns the feed of the name and makes it if there is none.
func (r *run) feed(key feedKey) *feed {
	if r.feeds[key] == nil {
		r.feeds[key] = &feed{Feed: store.Feed{Run: r.No, Stream: key.stream, Name: key.name}}
	}
	return r.feeds[key]
}

// add puts an item at the end of a stream.
func (f *feed) add(it store.StreamItem) {
	f.Last++
	f.At, it.Pos = it.At, f.Last
	f.items = append(f.items, it)
}

// drop removes the items up to a position.
func (f *feed) drop(to int64) {
	if to > f.Dropped {
		f.items = slices.Clone(f.items[to-f.Dropped:])
		f.Dropped = to
	}
}

// abandon answers the updates that have no answer, or only the received ones among them.
func (r *run) abandon(received bool) {
	for _, it := range r.items {
		if it.Kind == store.ItemUpdate && it.Verdict == nil && (!received || it.State == store.Consumed) {
			it.State, it.Value, it.Headers, it.Verdict = store.Consumed, nil, nil, []byte(store.Unanswered)
		}
	}
}

// Feeds implements store.Store.
func (s *Store) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	_, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var feeds []store.Feed
	for _, no := range slices.Compact(slices.Sorted(slices.Values(q.Runs))) {
		r := s.runs[no]
		if r == nil {
			continue
		}
		for key, f := range r.feeds {
			if q.Name != "" && key.name != q.Name {
				continue
			}
			c := f.Feed
			if c.Value = nil; q.Values {
				c.Value = bytes.Clone(f.Value)
			}
			feeds = append(feeds, c)
		}
	}
	slices.SortFunc(feeds, func(a, b store.Feed) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(order(a.Stream), order(b.Stream)), cmp.Compare(a.Name, b.Name))
	})
	return feeds, nil
}

// order puts values before streams.
func order(stream bool) int {
	if stream {
		return 1
	}
	return 0
}

// Stream implements store.Store.
func (s *Store) Stream(ctx context.Context, q store.StreamQuery) ([]store.StreamItem, error) {
	_, err := s.act(ctx)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	limit, err := q.Bounds()
	if err != nil {
		return nil, err
	}
	r := s.runs[q.Run]
	if r == nil || r.feeds[feedKey{true, q.Name}] == nil {
		return nil, nil
	}
	items := r.feeds[feedKey{true, q.Name}].items
	first, _ := slices.BinarySearchFunc(items, q.After+1, func(it store.StreamItem, pos int64) int {
		return cmp.Compare(it.Pos, pos)
	})
	items = slices.Clone(items[first:min(first+limit, len(items))])
	size := 0
	for i := range items {
		if size += len(items[i].Value); size > store.MaxStreamRead && i > 0 {
			return items[:i], nil
		}
		items[i].Value = bytes.Clone(items[i].Value)
	}
	return items, nil
}
