package notify

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stet-run/stet/store"
)

const (
	maxWhole = 100  // runs of one read with their values
	maxRows  = 1000 // runs of one read without
)

// lookPause is the least time between two looks for the followers.
const lookPause = 10 * time.Millisecond

// readFor makes the reader read for a call of Wait until the returned function is called.
func (w *Waiters) readFor(e *ending) (end func()) {
	w.mu.Lock()
	w.read[e] = true
	w.unread = append(w.unread, e)
	w.mu.Unlock()
	release := w.reader.use()
	hint(w.wake)
	return func() {
		w.mu.Lock()
		delete(w.read, e)
		w.unread = slices.DeleteFunc(w.unread, func(other *ending) bool { return other == e })
		w.mu.Unlock()
		release()
	}
}

// readAll is the reader's goroutine: it reads the store for all that wait.
//
// A call of Wait that has joined gets its run at once; those that join while the reader
// reads are served together by the next read. At a hint of the store, and once per poll
// interval, the reader finds out what has happened to the runs. For followers it does so
// no more often than each lookPause.
func (w *Waiters) readAll(ctx context.Context) {
	defer w.cfg.Changes.Listen()()
	poll := time.NewTicker(w.cfg.Poll)
	defer poll.Stop()
	// A change between the first read of a follower and Answered below would be missed: the
	// followers of items read once more, those of feeds as they join.
	feeds := feedReader{changed: true}
	var pause <-chan time.Time
	changed := w.cfg.Changes.Answered()
	for {
		w.readEnds(ctx)
		if pause == nil && feeds.look(ctx, w) {
			pause = time.After(lookPause)
		}
		select {
		case <-w.wake:
		case <-pause:
			pause = nil
		case <-changed:
			// Only now, and before the reads: a change that came with another case, or comes
			// meanwhile, is not missed.
			changed = w.cfg.Changes.Answered()
			feeds.changed = true
			if w.cfg.Sole() == nil {
				w.lookForEnds(ctx)
			}
		case <-poll.C:
			feeds.changed = true
			w.mu.Lock()
			w.unread = slices.Collect(maps.Keys(w.read))
			w.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// readEnds reads runs, with their values, for the calls of Wait that are to be served, and
// delivers those that have ended or are not there.
func (w *Waiters) readEnds(ctx context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		some := slices.Clone(w.unread[:min(len(w.unread), maxWhole)])
		w.mu.Unlock()
		if len(some) == 0 {
			return
		}
		w.readSome(ctx, some)
	}
}

func (w *Waiters) readSome(ctx context.Context, some []*ending) {
	ids := make([]string, len(some))
	for i, e := range some {
		ids[i] = e.id
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	page, err := w.cfg.Store.List(ctx, store.Filter{IDs: ids, Limit: len(ids), Values: true})
	switch {
	case err != nil && ctx.Err() != nil:
		return // the next reader serves them
	case err != nil && len(ids) > 1:
		for _, e := range some { // something may be wrong with one of them
			w.readSome(ctx, []*ending{e})
		}
		return
	}
	runs := make(map[string]*store.Run, len(page.Runs))
	for i := range page.Runs {
		runs[page.Runs[i].ID] = &page.Runs[i]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unread = slices.DeleteFunc(w.unread, func(e *ending) bool { return slices.Contains(some, e) })
	for _, e := range some {
		e.last = err
		switch run := runs[e.id]; {
		case away(err): // the next poll reads again
		case err != nil || run == nil:
			e.deliver(result{err: err})
		case over(run):
			e.deliver(result{run: *run, ok: true})
		}
	}
}

// over reports whether nothing more happens to a run by itself.
func over(run *store.Run) bool { return run.Status.Terminal() || run.Status == store.Stalled }

// lookForEnds finds out for which calls of Wait the run has ended, or is no longer there:
// they are to be served. Of an error the next poll knows more.
func (w *Waiters) lookForEnds(ctx context.Context) {
	w.mu.Lock()
	calls := make(map[string][]*ending, len(w.read))
	for e := range w.read {
		calls[e.id] = append(calls[e.id], e)
	}
	w.mu.Unlock()
	var ended []*ending
	if len(calls) == 1 { // may have ended: one read with its values says so
		for id := range calls {
			ended = calls[id]
			delete(calls, id)
		}
	}
	for ids := range slices.Chunk(slices.Collect(maps.Keys(calls)), maxRows) {
		page, err := w.cfg.Store.List(ctx, store.Filter{IDs: ids, Limit: len(ids)})
		if err != nil {
			return
		}
		for i := range page.Runs {
			if run := &page.Runs[i]; !over(run) {
				delete(calls, run.ID)
			}
		}
		for _, id := range ids {
			ended = append(ended, calls[id]...)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range ended {
		if w.read[e] && !slices.Contains(w.unread, e) {
			w.unread = append(w.unread, e)
		}
	}
}
