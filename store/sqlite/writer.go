package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// writer is the connection that writes.
type writer struct {
	s *Store
	// inUse holds a token while a goroutine uses the fields below.
	inUse chan struct{}

	c       *conn  // nil: to be opened
	pager   uint32 // the pager's data version after the last transaction
	version int64  // PRAGMA data_version, as the watcher has last seen it
	ended   time.Time
	looked  time.Time     // ended, as the watcher has last seen it
	since   time.Time     // of the streak
	streak  int           // transactions since the last gap
	busy    time.Duration // of these, how long they have held the lock
	cache   cache
	wal     wal
}

const (
	// gap is the pause of a writer that leaves no time to other processes, after
	// gapEvery transactions and gapAfter: between short ones others get in by chance.
	gap      = 500 * time.Microsecond
	gapEvery = 20
	gapAfter = 20 * time.Millisecond
)

func newWriter(s *Store) writer { return writer{s: s, inUse: make(chan struct{}, 1)} }

// tryLock takes the connection if it is free.
func (w *writer) tryLock() bool {
	select {
	case w.inUse <- struct{}{}:
		return true
	default:
		return false
	}
}

// lock waits for the connection.
func (w *writer) lock(ctx context.Context) error {
	if w.tryLock() {
		return nil
	}
	select {
	case w.inUse <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) unlock() { <-w.inUse }

// open opens the connection. The WAL is made here at the latest, so the folder is synced:
// a power cut that loses the name of a file loses the file.
func (w *writer) open(ctx context.Context) error {
	if w.s.cfg.vfs == "" {
		if err := create(w.s.cfg.path); err != nil {
			return err
		}
	}
	c, err := openConn(ctx, &w.s.cfg, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		return err
	}
	w.c = c
	w.cache.forget()
	if err := w.wal.watch(c); err != nil {
		return errors.Join(err, w.close())
	}
	reopened := w.version != 0
	if _, err := c.row("PRAGMA data_version", nil, &w.version); err != nil { // this opens the WAL too
		return errors.Join(err, w.close())
	}
	if reopened {
		w.s.watch.tell() // others may have written in between
	}
	if w.wal.path = w.s.logPath(); w.wal.path == "" {
		return nil
	}
	w.s.shareModes()
	return syncFolder(filepath.Dir(w.s.cfg.path))
}

// close closes the connection, if it is open.
func (w *writer) close() error {
	if w.c == nil {
		return nil
	}
	w.wal.stopReserving() // before the last connection deletes the file
	err := w.c.close()
	w.c = nil
	return err
}

// do calls fn in a write transaction at the store's time. Waiting for the write
// lock ends with ctx; from then on the act runs to its end.
func (w *writer) do(ctx context.Context, act string, fn func(c *conn, now store.Time) error) error {
	return w.act(ctx, act, true, fn)
}

// doUnsynced is do for what may be lost with the machine's power, because it says only that a
// process lives: a commit that does not wait for the disk. The next synced commit covers it.
func (w *writer) doUnsynced(ctx context.Context, act string, fn func(c *conn, now store.Time) error) error {
	return w.act(ctx, act, false, fn)
}

func (w *writer) act(ctx context.Context, act string, synced bool, fn func(c *conn, now store.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.lock(ctx); err != nil {
		return err
	}
	defer w.unlock()
	if w.s.closed.Load() {
		return store.ErrClosed
	}
	w.leaveGap()
	begun := time.Now()
	defer func() {
		w.ended = time.Now()
		w.busy += w.ended.Sub(begun)
	}()
	err := w.begin(ctx, synced)
	if err == nil {
		err = bounded(func() error { return fn(w.c, w.s.clock.read()) })
	}
	if err == nil {
		return w.commit(act)
	}
	w.rollback(err)
	return classifyWithin(ctx, act, err)
}

// begin begins a transaction that has the write lock, and whose commit waits for the disk if synced.
func (w *writer) begin(ctx context.Context, synced bool) error {
	if w.c == nil {
		if err := w.open(ctx); err != nil {
			return err
		}
	}
	if synced = synced && !w.s.cfg.normal; synced == w.c.unsynced {
		if err := w.c.sync(synced); err != nil {
			return err
		}
	}
	w.c.SetInterrupt(ctx)
	_, err := w.c.exec("BEGIN IMMEDIATE")
	w.c.SetInterrupt(context.Background())
	if err != nil {
		return err
	}
	w.wal.reserve()
	if w.c.pagerVersion() != w.pager {
		w.cache.forget() // another process has written
		if w.pager != 0 {
			w.s.watch.tell()
		}
	}
	return nil
}

// commit ends the transaction. After an error it may have happened all the same.
func (w *writer) commit(act string) error {
	err := w.c.commit()
	if err == nil {
		w.pager = w.c.pagerVersion()
		w.cache.committed()
		w.tend()
		return nil
	}
	w.rollback(err)
	if errors.Is(err, sqlite3.FULL) || errors.Is(err, sqlite3.BUSY) {
		return classify(act, err) // before the last frame was written
	}
	w.discard()
	help := ""
	if noRoom(err) {
		help = freeRoom
	}
	return fmt.Errorf("%s: %w: %w: %w%s", act, store.ErrUnavailable, store.ErrUnknown, err, help)
}

// rollback leaves the connection without a transaction. It closes the connection if the
// file could not be read or written: what is cached of the file may then be wrong.
func (w *writer) rollback(cause error) {
	w.cache.forget()
	if w.c == nil {
		return
	}
	if !w.c.GetAutocommit() {
		if _, err := w.c.exec("ROLLBACK"); err != nil {
			w.discard()
			return
		}
	}
	if errors.Is(cause, sqlite3.IOERR) || errors.Is(cause, sqlite3.CORRUPT) || errors.Is(cause, sqlite3.NOMEM) {
		w.discard()
		return
	}
	w.pager = w.c.pagerVersion()
}

// discard closes the connection; the next act opens another.
func (w *writer) discard() {
	if err := w.close(); err != nil {
		w.s.cfg.log.Warn("closing a connection after an error", "file", w.s.cfg.path, "error", err)
	}
}

// leaveGap lets other processes in when this one writes without a break: when its last
// transactions held the lock for more than three quarters of the time.
func (w *writer) leaveGap() {
	w.streak++
	wall := time.Since(w.since)
	if w.streak < gapEvery || wall < gapAfter {
		return
	}
	if w.busy > wall*3/4 {
		time.Sleep(gap)
	}
	w.streak, w.busy, w.since = 0, 0, time.Now()
}
