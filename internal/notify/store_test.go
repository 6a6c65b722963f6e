package notify_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/notify"
	"github.com/stet-run/stet/store"
)

// world is a store, of which only the reads and the hints are there, and the process that
// waits. A run is as runs says; one that is not there is still going.
type world struct {
	store.Store // nil: nothing else is asked of it

	mu      sync.Mutex
	takes   time.Duration         // each List
	runs    map[string]*store.Run // by ID
	items   map[string]store.Item
	feeds   []store.Feed
	reads   []string // what was asked
	bad     string   // a List with this ID fails
	away    int      // so many reads find that the store is away
	change  chan store.Change
	memory  map[string]bool // IDs of the runs in memory
	term    any             // see notify.Config.Sole
	waiters *notify.Waiters
	changes *notify.Changes
}

func newWorld() *world {
	w := &world{
		runs: map[string]*store.Run{}, items: map[string]store.Item{},
		change: make(chan store.Change), memory: map[string]bool{},
	}
	w.changes = notify.NewChanges(w.Changed)
	w.waiters = notify.New(notify.Config{
		Store: w, Changes: w.changes, Poll: time.Minute,
		InMemory: func(id string) bool { return w.memory[id] },
		Sole:     w.sole,
	})
	return w
}

var errUnreadable = errors.New("unreadable")

func (w *world) List(ctx context.Context, f store.Filter) (store.Page, error) {
	time.Sleep(w.takes)
	w.mu.Lock()
	defer w.mu.Unlock()
	what := "rows"
	if f.Values {
		what = "whole"
	}
	w.reads = append(w.reads, fmt.Sprintf("%s%v%v", what, slices.Sorted(slices.Values(f.IDs)), f.Nos))
	if err := w.leaves(); err != nil {
		return store.Page{}, err
	}
	if slices.Contains(f.IDs, w.bad) {
		return store.Page{}, errUnreadable
	}
	var page store.Page
	for id, run := range w.runs {
		if slices.Contains(f.IDs, id) || slices.Contains(f.Nos, run.No) {
			page.Runs = append(page.Runs, *run)
		}
	}
	return page, ctx.Err()
}

func (w *world) Feeds(ctx context.Context, q store.FeedQuery) ([]store.Feed, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads = append(w.reads, fmt.Sprint("feeds", q.Runs))
	return slices.Clone(w.feeds), ctx.Err()
}

func (w *world) Inbox(ctx context.Context, run store.RunNo, ids ...string) ([]store.Item, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads = append(w.reads, fmt.Sprint("item ", ids[0], run))
	if err := w.leaves(); err != nil {
		return nil, err
	}
	if item, there := w.items[ids[0]]; there {
		return []store.Item{item}, ctx.Err()
	}
	return nil, ctx.Err()
}

func (w *world) Changed(ctx context.Context) (store.Change, error) {
	select {
	case c := <-w.change:
		return c, nil
	case <-ctx.Done():
		return store.Change{}, ctx.Err()
	}
}

// leaves returns the error of a store that is away. w.mu is held.
func (w *world) leaves() error {
	if w.away == 0 {
		return nil
	}
	w.away--
	return fmt.Errorf("%w: the server restarts", store.ErrUnavailable)
}

// afterRead waits until the item was read.
func (w *world) afterRead(id string) {
	for {
		w.mu.Lock()
		read := slices.ContainsFunc(w.reads, func(what string) bool { return strings.Contains(what, id) })
		w.mu.Unlock()
		if read {
			return
		}
		runtime.Gosched()
	}
}

// run sets how a run stands.
func (w *world) run(no store.RunNo, id string, status store.Status) *store.Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[id] = &store.Run{No: no, ID: id, Status: status}
	return w.runs[id]
}

func (w *world) sole() any {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.term
}

func (w *world) setSole(term any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.term = term
}

// asked returns what was asked since it was called last.
func (w *world) asked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	reads := w.reads
	w.reads = nil
	return reads
}

func (w *world) expectReads(t *testing.T, reads ...string) {
	t.Helper()
	if got := w.asked(); !slices.Equal(got, reads) {
		t.Errorf("expected the reads %q, found %q", reads, got)
	}
}

// set changes an item.
func (w *world) set(id string, item store.Item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.items[id] = item
}

// another says that another process has changed something.
func (w *world) another() { w.change <- store.Change{Answered: true} }
