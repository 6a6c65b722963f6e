package engine

import (
	"context"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// feeds tells readers in this process that a run may have something new for
// them: a value, items of a stream, an answer, or its end.
//
// What this process commits is told by who commits it. What others commit is found
// out by one goroutine for all readers, which lives while there are any: when the
// store says that something has changed, and once per poll interval, it asks for
// the numbers of all runs that are read, in two queries. While this process owns all
// of the store it asks nothing.
type feeds struct {
	e *Engine

	mu      sync.Mutex
	readers map[store.RunNo]map[chan struct{}]bool // true: waits for an answer
	stop    context.CancelFunc
	done    chan struct{} // of the following goroutine
}

// feedsPause is the least time between two looks at what others have written.
const feedsPause = 10 * time.Millisecond

// Follow returns a channel that gets a hint when a feed of the run may have
// changed, or the run has ended. Read first after this call. The second result
// ends it.
func (e *Engine) Follow(run store.RunNo) (<-chan struct{}, func()) { return e.feeds.join(run, false) }

// join adds a reader. One that waits for an answer, which no number tells, gets a
// hint whenever something has changed in the store.
func (f *feeds) join(run store.RunNo, answer bool) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1) // a hint is kept until it is looked at
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers == nil {
		f.readers = map[store.RunNo]map[chan struct{}]bool{}
	}
	if len(f.readers) == 0 {
		former := f.done
		ctx, cancel := context.WithCancel(context.Background())
		f.stop, f.done = cancel, make(chan struct{})
		go f.follow(ctx, f.done, former)
	}
	if f.readers[run] == nil {
		f.readers[run] = map[chan struct{}]bool{}
	}
	f.readers[run][ch] = answer
	return ch, sync.OnceFunc(func() { f.leave(run, ch) })
}

func (f *feeds) leave(run store.RunNo, ch chan struct{}) {
	f.mu.Lock()
	delete(f.readers[run], ch)
	if len(f.readers[run]) == 0 {
		delete(f.readers, run)
	}
	last, done := len(f.readers) == 0, f.done
	if last {
		f.stop()
	}
	f.mu.Unlock()
	if last {
		<-done
	}
}

// tell gives a hint to the readers of a run.
func (f *feeds) tell(run store.RunNo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch := range f.readers[run] {
		hint(ch)
	}
}

// shown tells readers of a turn that was committed.
func (f *feeds) shown(t *store.Turn) {
	if len(t.Values)+len(t.Appends)+len(t.Answers) > 0 || t.Rewound || t.Update != nil && t.Update.Continue != nil {
		f.tell(t.Run)
	}
}

// follow finds out what other processes have written for readers.
func (f *feeds) follow(ctx context.Context, done, former chan struct{}) {
	defer close(done)
	if former != nil {
		<-former
	}
	unlisten := f.e.hub.listen()
	defer unlisten()
	var executor *executor
	heads := map[store.RunNo]head{}
	for {
		changed := f.e.hub.wait()
		if now := f.e.executor.Load(); now == nil || now != executor || now.member != nil {
			executor = now
			heads = f.look(ctx, heads)
			if !sleep(ctx, feedsPause) {
				return
			}
		}
		select {
		case <-changed:
		case <-time.After(f.e.cfg.Poll):
		case <-ctx.Done():
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// head is what changes when a run has something new for readers.
type head struct {
	feeds, last int64 // how many feeds, and the sum of their numbers
	status      store.Status
	incarnation int
}

// look tells the readers of runs that are not as they were.
func (f *feeds) look(ctx context.Context, former map[store.RunNo]head) map[store.RunNo]head {
	f.mu.Lock()
	runs := make([]store.RunNo, 0, len(f.readers))
	for no, readers := range f.readers {
		runs = append(runs, no)
		for ch, answer := range readers {
			if answer {
				hint(ch)
			}
		}
	}
	f.mu.Unlock()
	heads := make(map[store.RunNo]head, len(runs))
	all, err := f.e.cfg.Store.Feeds(ctx, store.FeedQuery{Runs: runs})
	if err != nil {
		return former // the next look finds it
	}
	filter := store.Filter{Nos: runs, Limit: store.MaxPage}
	for {
		page, err := f.e.cfg.Store.List(ctx, filter)
		if err != nil {
			return former
		}
		for i := range page.Runs {
			r := &page.Runs[i]
			heads[r.No] = head{status: r.Status, incarnation: r.Incarnation}
		}
		if filter.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	for i := range all {
		h := heads[all[i].Run]
		h.feeds, h.last = h.feeds+1, h.last+all[i].Last
		heads[all[i].Run] = h
	}
	for no, h := range heads {
		if was, known := former[no]; !known || was != h {
			f.tell(no)
		}
	}
	return heads
}

// Answer waits for the answer to an update that was applied as the item with the
// ID. If its run ends, or continues as new, before, the answer is
// store.Unanswered; if its run is swept, nil. ErrPending: ctx has ended before; the
// update stands.
func (e *Engine) Answer(ctx context.Context, run store.RunNo, itemID string) ([]byte, error) {
	hints, leave := e.feeds.join(run, true)
	defer leave()
	for {
		items, err := e.cfg.Store.Inbox(ctx, run, itemID)
		switch {
		case err != nil && ctx.Err() == nil:
			return nil, err
		case err == nil && len(items) == 1 && items[0].Verdict != nil:
			return items[0].Verdict, nil
		case err == nil && len(items) == 0:
			return nil, nil
		}
		select {
		case <-hints:
		case <-ctx.Done():
			return nil, pending(ctx)
		}
	}
}
