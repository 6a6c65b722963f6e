package notify

import (
	"context"

	"github.com/stet-run/stet/store"
)

// feedReader finds out for the followers what other processes have written. It is the
// reader's.
type feedReader struct {
	changed bool // something may have changed since the last look
	sole    any  // Config.Sole at the last look
	heads   map[store.RunNo]head
}

// head is what changes when a run has something new in its feeds.
type head struct {
	feeds, last int64 // how many feeds, and the sum of their numbers
	status      store.Status
	incarnation int
}

// look gives hints to the followers of runs whose feeds are not as they were, and to those
// that read an item. It reports whether it has looked: not if nothing can have changed, as
// while this process owns the whole store.
func (r *feedReader) look(ctx context.Context, w *Waiters) bool {
	changed, sole := r.changed, w.cfg.Sole()
	changed = changed && (sole == nil || sole != r.sole)
	r.changed = false
	w.mu.Lock()
	wanted := len(w.followers) > 0 && (changed || w.joined)
	w.joined = false
	var runs []store.RunNo
	for no, followers := range w.followers {
		reads := false
		for f := range followers {
			if f.feeds {
				reads = true
			} else if changed {
				hint(f.hints)
			}
		}
		if reads {
			runs = append(runs, no)
		}
	}
	w.mu.Unlock()
	if !wanted {
		return false
	}
	r.sole = sole
	heads, err := w.heads(ctx, runs)
	if err != nil {
		return true // the next look finds it
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for no, h := range heads {
		if was, known := r.heads[no]; known && was == h {
			continue
		}
		for f := range w.followers[no] {
			hint(f.hints)
		}
	}
	r.heads = heads
	return true
}

// heads reads the heads of runs, in two queries; of none it asks nothing.
func (w *Waiters) heads(ctx context.Context, runs []store.RunNo) (map[store.RunNo]head, error) {
	heads := make(map[store.RunNo]head, len(runs))
	if len(runs) == 0 {
		return heads, nil
	}
	feeds, err := w.cfg.Store.Feeds(ctx, store.FeedQuery{Runs: runs})
	if err != nil {
		return nil, err
	}
	filter := store.Filter{Nos: runs, Limit: store.MaxPage}
	for more := true; more; more = filter.Cursor != "" {
		page, err := w.cfg.Store.List(ctx, filter)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			r := &page.Runs[i]
			heads[r.No] = head{status: r.Status, incarnation: r.Incarnation}
		}
		filter.Cursor = page.Next
	}
	for i := range feeds {
		h := heads[feeds[i].Run]
		h.feeds, h.last = h.feeds+1, h.last+feeds[i].Last
		heads[feeds[i].Run] = h
	}
	return heads, nil
}
