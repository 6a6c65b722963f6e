package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// writer is the connection that writes.
type writer struct {
	s *Store

	mu      sync.Mutex
	c       *conn // nil: to be opened anew
	version int64 // of the data, as this connection has last seen it
	ended   time.Time
	streak  int // transactions in a row without a break
	hand    hand
}

const (
	// gap is how long a writer without a break lets others in, and how often.
	gap      = 500 * time.Microsecond
	gapEvery = 20
	// breakAfter is the pause between two transactions that counts as a break.
	breakAfter = 200 * time.Microsecond

	// checkpointPages is the size of the WAL from which on a commit moves pages
	// into the database; strangers leave that to the owner, up to a bound.
	checkpointPages         = 2_000
	checkpointPagesStranger = 12_000

	walWarning = 64 << 20
	walRefusal = 1 << 30
)

func (w *writer) open(ctx context.Context) error {
	c, err := openConn(ctx, &w.s.cfg, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		return err
	}
	w.c = c
	w.hand.forget()
	return w.setCheckpoint()
}

// setCheckpoint says who moves the WAL's pages.
func (w *writer) setCheckpoint() error {
	pages := checkpointPagesStranger
	if w.s.owner.held() {
		pages = checkpointPages
	}
	return w.c.Exec(fmt.Sprintf("PRAGMA wal_autocheckpoint=%d; PRAGMA journal_size_limit=%d", pages, walWarning/2))
}

func (w *writer) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c == nil {
		return nil
	}
	err := w.c.close()
	w.c = nil
	return err
}

// do calls fn in a write transaction at the store's time. Waiting for the write
// lock ends with ctx; from then on the act runs to its end.
func (w *writer) do(ctx context.Context, act string, fn func(c *conn, now store.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.s.closed.Load() {
		return store.ErrClosed
	}
	w.leaveGap()
	defer func() { w.ended = time.Now() }()
	if w.c == nil {
		if err := w.open(ctx); err != nil {
			return classify(act, err)
		}
	}
	c := w.c
	c.SetInterrupt(ctx)
	_, err := c.exec("BEGIN IMMEDIATE")
	c.SetInterrupt(context.Background())
	if err == nil {
		w.noteVersion()
		err = fn(c, w.s.clock.read())
	}
	if err == nil {
		return w.commit(act)
	}
	w.rollback()
	if ctx.Err() != nil && errors.Is(err, sqlite3.INTERRUPT) {
		return ctx.Err()
	}
	return classify(act, err)
}

// commit ends the transaction. What it could not do may still have happened.
func (w *writer) commit(act string) error {
	_, err := w.c.exec("COMMIT")
	if err == nil {
		return nil
	}
	w.hand.forget()
	unknown := !errors.Is(err, sqlite3.FULL) && !errors.Is(err, sqlite3.BUSY)
	w.rollback()
	if !unknown {
		return classify(act, err)
	}
	w.discard()
	return fmt.Errorf("%s: %w: %w: %w", act, store.ErrUnavailable, store.ErrUnknown, err)
}

// rollback leaves the connection without a transaction.
func (w *writer) rollback() {
	w.hand.forget()
	if w.c.GetAutocommit() {
		return
	}
	if _, err := w.c.exec("ROLLBACK"); err != nil {
		w.discard()
	}
}

// discard closes the connection; the next act opens it anew.
func (w *writer) discard() {
	if err := w.c.close(); err != nil {
		w.s.cfg.log.Warn("closing a connection after an error", "file", w.s.cfg.path, "error", err)
	}
	w.c = nil
}

// leaveGap lets other processes in when this one writes without a break.
func (w *writer) leaveGap() {
	if w.streak++; time.Since(w.ended) > breakAfter {
		w.streak = 0
	}
	if w.streak >= gapEvery {
		w.streak = 0
		time.Sleep(gap)
	}
}

// noteVersion tells the watcher when another process has written.
func (w *writer) noteVersion() {
	var version int64
	if _, err := w.c.row("PRAGMA data_version", nil, &version); err != nil {
		return // the next one sees it
	}
	if version != w.version {
		first := w.version == 0
		w.version = version
		if !first {
			w.s.watch.notify()
		}
	}
}

// checkWAL warns about a WAL that grows, and refuses what would make it grow
// without bound.
func (s *Store) checkWAL() error {
	info, err := os.Stat(s.cfg.path + "-wal")
	if err != nil {
		return nil // none, or of another file system
	}
	switch size := info.Size(); {
	case size > walRefusal:
		return fmt.Errorf("%w: the WAL of %s has %d MiB, more than %d: something keeps a read transaction open; end it",
			store.ErrUnavailable, s.cfg.path, size>>20, walRefusal>>20)
	case size > walWarning:
		s.cfg.log.Warn("the WAL is large: a reader keeps it from being reset", "file", s.cfg.path, "bytes", size)
	}
	return nil
}

// watcher notices what other processes write.
type watcher struct {
	s       *Store
	foreign chan struct{} // capacity 1: another process has written
	closed  chan struct{}
}

const (
	watchBusy = 2 * time.Millisecond // while something happens
	watchIdle = 4 * time.Millisecond
	idleAfter = 2 * time.Second
)

func (w *watcher) notify() {
	select {
	case w.foreign <- struct{}{}:
	default:
	}
}

// Changed implements store.Store. It reads the data version of the connection
// that writes, which changes only when another process, or another Store on the
// file, has written.
func (s *Store) Changed(ctx context.Context) error {
	timer := time.NewTimer(watchBusy)
	defer timer.Stop()
	for {
		select {
		case <-s.watch.foreign:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-s.watch.closed:
			return store.ErrClosed
		case <-timer.C:
		}
		timer.Reset(s.write.look())
	}
}

// look reads the data version unless a write is under way, which reads it
// itself. It returns when to look again.
func (w *writer) look() time.Duration {
	if !w.mu.TryLock() {
		return watchBusy
	}
	defer w.mu.Unlock()
	if w.c != nil && !w.s.closed.Load() {
		w.noteVersion()
	}
	if time.Since(w.ended) > idleAfter {
		return watchIdle
	}
	return watchBusy
}
