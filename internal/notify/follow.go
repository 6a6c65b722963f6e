package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stet-run/stet/store"
)

// ErrPending says that a request stands and nobody has decided it yet.
var ErrPending = errors.New("request pending")

// follower is a call that reads something of a run whenever that may have changed.
type follower struct {
	run     store.RunNo
	feeds   bool          // it reads feeds; otherwise an item, of which no number of a feed tells
	item    store.ItemNo  // whose verdict is delivered with the hint; 0: none
	hints   chan struct{} // capacity 1: a hint is kept until it is looked at
	verdict []byte        // delivered; guarded by Waiters.mu
}

// join gives hints to f until the returned function is called.
func (w *Waiters) join(f *follower) (leave func()) {
	f.hints = make(chan struct{}, 1)
	w.mu.Lock()
	if w.followers[f.run] == nil {
		w.followers[f.run] = map[*follower]bool{}
	}
	w.followers[f.run][f] = true
	if f.feeds {
		w.feeds++
		w.joined = w.joined || w.feeds == 1
	}
	w.mu.Unlock()
	release := w.reader.use()
	hint(w.wake)
	return func() {
		w.mu.Lock()
		delete(w.followers[f.run], f)
		if len(w.followers[f.run]) == 0 {
			delete(w.followers, f.run)
		}
		if f.feeds {
			w.feeds--
		}
		w.mu.Unlock()
		release()
	}
}

// Follow calls read now and whenever the feeds of the run may have something new, until
// read returns false or an error, or the run has ended and read has seen that. It reports
// whether the run was there until then. An error is read's, that of a read of the run, or
// the cause of ctx's end.
func (w *Waiters) Follow(
	ctx context.Context, run store.RunNo, read func() (more bool, err error),
) (there bool, err error) {
	f := &follower{run: run, feeds: true}
	defer w.join(f)()
	for {
		// What it shows is read after it is known that nothing follows.
		page, err := w.cfg.Store.List(ctx, store.Filter{Nos: []store.RunNo{run}, Limit: 1})
		if err == nil && len(page.Runs) == 0 {
			return false, nil
		}
		more := false
		if err == nil {
			more, err = read()
		}
		var again <-chan time.Time
		switch {
		case err != nil && ctx.Err() != nil:
			return true, context.Cause(ctx)
		case away(err):
			again = time.After(w.cfg.Poll)
		case err != nil, !more, page.Runs[0].Status.Terminal():
			return true, err
		}
		select {
		case <-f.hints:
		case <-again:
		case <-ctx.Done():
			return true, because(ctx, err)
		}
	}
}

// Persist calls read until it finds the store there: it returns nil, or the first other error than that the store is
// away. The error after ctx's end says why it has waited.
func (w *Waiters) Persist(ctx context.Context, read func() error) error {
	for {
		err := read()
		if !away(err) {
			return err
		}
		select {
		case <-time.After(w.cfg.Poll):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return because(ctx, err)
		}
	}
}

// away reports whether a store that does not answer now may do so later.
func away(err error) bool {
	return errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrClosed)
}

// because returns the cause of ctx's end, with the error that the store has returned last; nil: none.
func because(ctx context.Context, last error) error {
	if last == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: at last: %w", context.Cause(ctx), last)
}

// Verdict waits for the owner's answer to a request that was applied as item no with the
// given item ID. ErrPending: ctx has ended before; the request stands.
func (w *Waiters) Verdict(ctx context.Context, run store.RunNo, no store.ItemNo, itemID string) ([]byte, error) {
	return w.await(ctx, &follower{run: run, item: no}, itemID)
}

// Answer waits for the answer to an update that was applied as the item with the ID. If
// its run ends, or continues as new, before, the answer is store.Unanswered; if its run is
// swept, nil. ErrPending: ctx has ended before; the update stands.
func (w *Waiters) Answer(ctx context.Context, run store.RunNo, itemID string) ([]byte, error) {
	return w.await(ctx, &follower{run: run}, itemID)
}

// await reads an item, now and at each hint, until it has a verdict.
func (w *Waiters) await(ctx context.Context, f *follower, itemID string) ([]byte, error) {
	defer w.join(f)()
	for {
		items, err := w.cfg.Store.Inbox(ctx, f.run, itemID)
		var again <-chan time.Time
		switch {
		case away(err):
			again = time.After(w.cfg.Poll)
		case err != nil && ctx.Err() == nil:
			return nil, err
		case err != nil:
		case len(items) == 1 && items[0].Verdict != nil && (f.item == 0 || items[0].State == store.Consumed):
			return items[0].Verdict, nil
		case len(items) == 0 && f.item == 0:
			return nil, nil
		}
		select {
		case <-again:
		case <-f.hints:
			w.mu.Lock()
			verdict := f.verdict
			w.mu.Unlock()
			if verdict != nil {
				return verdict, nil
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrPending, context.Cause(ctx))
		}
	}
}
