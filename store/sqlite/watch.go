package sqlite

import (
	"context"
	"time"

	"github.com/stet-run/stet/store"
)

// watcher notices the writes of other processes.
type watcher struct {
	foreign chan struct{} // capacity 1: another process has written
	closed  chan struct{} // closed by Close
}

// tell makes one call of Changed return, now or later.
func (w *watcher) tell() {
	select {
	case w.foreign <- struct{}{}:
	default: // a call is due already
	}
}

const (
	watchBusy = time.Millisecond // while something happens
	watchIdle = 4 * time.Millisecond
	idleAfter = 2 * time.Second
)

// Changed implements store.Store. It reads the data version of the connection that
// writes, which changes only when another process, or another Store on the file, writes.
// The content of the change is not known.
func (s *Store) Changed(ctx context.Context) (store.Change, error) {
	timer := time.NewTimer(watchBusy)
	defer timer.Stop()
	for {
		select {
		case <-s.watch.foreign:
			return store.Anything(), nil
		case <-ctx.Done():
			return store.Change{}, ctx.Err()
		case <-s.watch.closed:
			return store.Change{}, store.ErrClosed
		case <-timer.C:
		}
		next := watchBusy
		if s.write.tryLock() { // otherwise its user looks, see writer.begin
			next = s.write.look()
			s.write.unlock()
		}
		timer.Reset(next)
	}
}

// look reads the data version and returns when to look again.
func (w *writer) look() time.Duration {
	if w.c == nil || w.s.closed.Load() || time.Since(w.ended) < watchBusy {
		return watchBusy
	}
	var version int64
	if _, err := w.c.row("PRAGMA data_version", nil, &version); err == nil && version != w.version {
		w.version = version
		w.s.watch.tell()
	}
	if time.Since(w.ended) > idleAfter {
		return watchIdle
	}
	return watchBusy
}
