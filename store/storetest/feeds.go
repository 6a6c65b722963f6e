package storetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/stet-run/stet/store"
)

// readFeeds reads the feeds of the runs.
func (st *state) readFeeds(ctx context.Context, s store.Store) error {
	feeds, err := s.Feeds(ctx, store.FeedQuery{Runs: st.numbers(), Values: true})
	if err != nil {
		return err
	}
	for _, f := range feeds {
		st.Feeds[f.Run] = append(st.Feeds[f.Run], f)
		if !f.Stream {
			continue
		}
		items, err := s.Stream(ctx, store.StreamQuery{Run: f.Run, Name: f.Name, After: max(f.Last-store.DefaultPage, 0)})
		if err != nil {
			return err
		}
		if st.Streams[f.Run] == nil {
			st.Streams[f.Run] = map[string][]store.StreamItem{}
		}
		st.Streams[f.Run][f.Name] = items
	}
	return nil
}

// feeds checks the feeds of a run, by themselves and against those before.
func (c *checker) feeds(r *store.Run, now *state) error {
	key := func(f *store.Feed) string { return fmt.Sprint(f.Stream, " ", f.Name) }
	former := map[string]*store.Feed{}
	for i := range c.former.Feeds[r.No] {
		f := &c.former.Feeds[r.No][i]
		former[key(f)] = f
	}
	last := ""
	for i := range now.Feeds[r.No] {
		f := &now.Feeds[r.No][i]
		if k := key(f); k <= last {
			return fmt.Errorf("feed %s comes after %s", k, last)
		} else {
			last = k
		}
		if f.Last < 1 || f.Size != len(f.Value) {
			return fmt.Errorf("a feed is %+v", *f)
		}
		if was := former[last]; was != nil {
			delete(former, last)
			if f.Last < was.Last {
				return fmt.Errorf("feed %s went back from %d to %d", last, was.Last, f.Last)
			}
			if f.Last == was.Last && !bytes.Equal(f.Value, was.Value) {
				return fmt.Errorf("feed %s has another value and the same number", last)
			}
		}
		if f.Stream {
			if err := c.stream(f, now); err != nil {
				return fmt.Errorf("stream %s: %w", f.Name, err)
			}
		}
	}
	if len(former) > 0 {
		return fmt.Errorf("%d feeds are gone", len(former))
	}
	if !slices.IsSortedFunc(r.Tags, func(a, b store.Pair) int { return bytes.Compare([]byte(a.Key), []byte(b.Key)) }) {
		return fmt.Errorf("its tags are not sorted: %v", r.Tags)
	}
	return nil
}

// stream checks the last items of a stream: no gap, and none that has changed.
func (c *checker) stream(f *store.Feed, now *state) error {
	items := now.Streams[f.Run][f.Name]
	former := map[int64]*store.StreamItem{}
	for i := range c.former.Streams[f.Run][f.Name] {
		was := &c.former.Streams[f.Run][f.Name][i]
		former[was.Pos] = was
	}
	for i := range items {
		it := &items[i]
		if want := f.Last - int64(len(items)-1-i); it.Pos != want {
			return fmt.Errorf("expected the position %d, found %d", want, it.Pos)
		}
		if was := former[it.Pos]; was != nil &&
			(was.At != it.At || was.Rewound != it.Rewound || !bytes.Equal(was.Value, it.Value)) {
			return fmt.Errorf("the item at %d has changed", it.Pos)
		}
		if it.Rewound && it.Value != nil {
			return fmt.Errorf("the mark at %d has a value", it.Pos)
		}
	}
	return nil
}

var (
	genFeeds  = []string{"f", "f", "g", "ö"}
	genKeys   = []string{"k", "l", "ö"}
	genLabels = []string{"1", "2", "a b"}
)

func (g *generator) headers() []byte {
	if g.chance(2) {
		return nil
	}
	return []byte(pick(g, []string{"", "h", "hh"}))
}

// tags returns tags, each of another key.
func (g *generator) tags() []store.Pair {
	var tags []store.Pair
	for _, key := range some(g, genKeys, 2) {
		tags = append(tags, store.Pair{Key: key, Value: pick(g, genLabels)})
	}
	return tags
}

// wanted returns tags to look for, mostly some of a run.
func (g *generator) wanted() []store.Pair {
	tagged := g.runs(func(r *store.Run) bool { return len(r.Tags) > 0 })
	if len(tagged) == 0 || g.chance(4) {
		return g.tags()
	}
	return some(g, pick(g, tagged).Tags, 2)
}

// shows lets a turn set, append, tag and answer.
func (g *generator) shows(r *store.Run, t *store.Turn) {
	if g.chance(4) {
		for _, name := range slices.Compact(some(g, genFeeds, 2)) {
			t.Values = append(t.Values, store.Setting{Name: name, Value: g.value()})
		}
	}
	if g.chance(4) {
		for range g.IntN(4) {
			t.Appends = append(t.Appends, store.Append{Name: pick(g, genFeeds), Value: g.value(),
				Keep: int64(max(g.IntN(8)-4, 0))})
		}
		t.Rewound = g.chance(3)
	}
	if g.chance(6) {
		t.Tags = g.tags()
		if len(t.Tags) > 0 && g.chance(2) {
			t.Tags[0].Value = ""
		}
	}
	for _, it := range g.w.spec.now.Items[r.No] {
		consumed := it.State == store.Consumed ||
			slices.ContainsFunc(t.Consumed, func(c store.Consumption) bool { return c.Item == it.No && c.Verdict == nil })
		if it.Kind == store.ItemUpdate && consumed && it.Verdict == nil && g.chance(2) || g.chance(80) {
			t.Answers = append(t.Answers, store.Consumption{Item: it.No, Verdict: []byte("answer")})
		}
	}
}

func (g *generator) readFeed() op {
	handle, no := g.handle(), store.RunNo(77)
	if runs := g.w.spec.now.Runs; len(runs) > 0 {
		no = pick(g, runs).No
	}
	if g.chance(2) {
		return &feedsOp{Handle: handle, Query: store.FeedQuery{Runs: []store.RunNo{no, 77, no - 1}, Values: g.chance(2),
			Name: pick(g, []string{"", "f", "none"})}}
	}
	return &streamOp{Handle: handle, Query: store.StreamQuery{Run: no, Name: pick(g, genFeeds),
		After: int64(g.IntN(6) - 1), Limit: g.IntN(4)}}
}

// countFeeds notes the feeds that an operation has written.
func (w *world) countFeeds(o op, a answer) {
	if c, ok := o.(*commitOp); ok && a.Error == "" {
		result, _ := a.Value.(store.BatchResult)
		for i := range c.Turns {
			if i < len(result.Turns) && result.Turns[i].Verdict == store.Committed {
				if len(c.Turns[i].Answers) > 0 {
					w.reached["an update answered"]++
				}
				for _, tag := range c.Turns[i].Tags {
					if tag.Value == "" {
						w.reached["a tag removed"]++
					}
				}
			}
		}
	}
	if l, ok := o.(*listOp); ok && len(l.Filter.Tags) > 0 {
		if pages, ok := a.Value.([][]store.Run); ok && len(pages) > 0 && len(pages[0]) > 0 {
			w.reached["a run found by its tag"]++
		}
	}
	for no, feeds := range w.spec.now.Feeds {
		for _, f := range feeds {
			if !f.Stream && f.Last > 1 {
				w.reached["a value set again"]++
			}
		}
		for _, items := range w.spec.now.Streams[no] {
			w.reached["a stream with items"] += len(items)
			for _, it := range items {
				if it.Rewound {
					w.reached["a mark in a stream"]++
				}
			}
		}
	}
	for _, items := range w.spec.now.Items {
		for _, it := range items {
			if it.Kind == store.ItemUpdate && string(it.Verdict) == store.Unanswered {
				w.reached["an update abandoned"]++
			}
		}
	}
}
