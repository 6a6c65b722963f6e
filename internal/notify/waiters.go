package notify

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stet-run/stet/store"
)

// Config is what Waiters are made from. All fields are set by the caller.
type Config struct {
	Store   store.Store
	Changes *Changes // of the store
	Poll    time.Duration

	// InMemory reports whether this process will call RunEnded at the end of the run.
	InMemory func(runID string) bool
	// Sole returns what identifies the time for which this process owns the whole
	// store, and so commits all that runs do; nil: others may commit for runs.
	Sole func() any
}

// Waiters are the callers that wait for what happens to runs. It is safe for concurrent
// use.
type Waiters struct {
	cfg    Config
	reader onDemand
	wake   chan struct{} // capacity 1: a hint to the reader that there is something to read

	mu        sync.Mutex
	ends      map[string][]*ending // by run ID
	read      map[*ending]bool     // those for which the reader reads
	unread    []*ending            // of these, those for which it is to read now
	followers map[store.RunNo]map[*follower]bool
	feeds     int  // how many of the followers read feeds
	joined    bool // the first of these has joined since the reader's last look

	commits listeners
}

// ending is a call of Wait.
type ending struct {
	id      string
	from    store.RunNo // the end of an earlier run with the ID does not count; 0: any counts
	results chan result // capacity 1: the first
	last    error       // of the last read, while the store is away; guarded by Waiters.mu
}

// result is what a call of Wait returns.
type result struct {
	run  store.Run
	ok   bool
	err  error
	told bool // by RunEnded, and not read
}

// New returns Waiters.
func New(cfg Config) *Waiters {
	w := &Waiters{
		cfg: cfg, wake: make(chan struct{}, 1),
		ends: map[string][]*ending{}, read: map[*ending]bool{}, followers: map[store.RunNo]map[*follower]bool{},
	}
	w.reader.work = w.readAll
	return w
}

// Wait blocks until the run with the ID has ended or stalled, and returns it with its input and output. A run whose
// number is below from was replaced: its end does not count, though this process may hear of it late. If from is 0, the
// store says which run has the ID now. ok is false if there is no such run. The error is of a read, or the cause of
// ctx's end. Wait continues while the store is away.
func (w *Waiters) Wait(ctx context.Context, runID string, from store.RunNo) (run store.Run, ok bool, err error) {
	for {
		r := w.wait(ctx, runID, from)
		if !r.told || from != 0 {
			return r.run, r.ok, r.err
		}
		now, err := w.cfg.Store.List(ctx, store.Filter{IDs: []string{runID}, Limit: 1})
		if err != nil || len(now.Runs) == 0 || now.Runs[0].No <= r.run.No {
			return r.run, true, nil
		}
		from = now.Runs[0].No
	}
}

// wait is one try of Wait.
func (w *Waiters) wait(ctx context.Context, runID string, from store.RunNo) result {
	e := &ending{id: runID, from: from, results: make(chan result, 1)}
	w.mu.Lock()
	w.ends[runID] = append(w.ends[runID], e)
	w.mu.Unlock()
	defer w.forget(e)
	if w.cfg.InMemory(runID) {
		select {
		case r := <-e.results:
			return r
		case <-time.After(w.cfg.Poll): // its shard may be lost meanwhile
		case <-ctx.Done():
			return result{ok: true, err: context.Cause(ctx)}
		}
	}
	defer w.readFor(e)()
	select {
	case r := <-e.results:
		return r
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		return result{ok: true, err: because(ctx, e.last)}
	}
}

func (w *Waiters) forget(e *ending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[e.id] = slices.DeleteFunc(w.ends[e.id], func(other *ending) bool { return other == e })
	if len(w.ends[e.id]) == 0 {
		delete(w.ends, e.id)
	}
}

// RunEnded delivers the end, or the stall, of a run that this process has committed.
func (w *Waiters) RunEnded(run store.Run) {
	w.commits.committed(run.No)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.ends[run.ID] {
		if run.No >= e.from {
			e.deliver(result{run: run, ok: true, told: true})
		}
	}
	for f := range w.followers[run.No] {
		hint(f.hints)
	}
}

// deliver sends a result to the call, unless it has one. Waiters.mu is held.
func (e *ending) deliver(r result) {
	select {
	case e.results <- r:
	default:
	}
}

// Committed delivers what a turn that this process has committed has for the followers of
// its run: verdicts, and hints that there is something new to read. v is the verdict on the turn, by which it stands.
func (w *Waiters) Committed(t *store.Turn, v store.Verdict) {
	w.commits.committed(t.Run)
	consumed := t.ConsumedBy(v)
	shows := len(t.Values)+len(t.Appends)+len(t.Answers) > 0 || t.Rewound || t.Update != nil && t.Update.Continue != nil
	decides := func(c store.Consumption) bool { return c.Verdict != nil }
	if !shows && !slices.ContainsFunc(consumed, decides) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for f := range w.followers[t.Run] {
		for _, c := range consumed {
			if c.Item == f.item && decides(c) {
				f.verdict = c.Verdict
			}
		}
		if shows || f.verdict != nil {
			hint(f.hints)
		}
	}
}

// hint sends to a channel of capacity one, unless a hint is waiting there.
func hint(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
