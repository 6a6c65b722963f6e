package sqlite

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/stet-run/stet/store"
)

// watcher notices the writes of other processes.
type watcher struct {
	foreign chan struct{} // capacity 1: another process has written
	closed  chan struct{} // closed by Close

	once    sync.Once         // makes log, at the first call of Changed
	log     *fsnotify.Watcher // the system's notices of writes to the log; nil: there are none
	virtual bool              // so is the time of the first call of Changed
	missed  atomic.Int32      // writes of others in succession that came without a notice
}

// tell makes one call of Changed return, now or later.
func (w *watcher) tell() {
	select {
	case w.foreign <- struct{}{}:
	default: // a call is due already
	}
}

// close ends all calls of Changed.
func (w *watcher) close() {
	close(w.closed)
	w.once.Do(func() {}) // from now on log stays as it is
	if w.log != nil {
		_ = w.log.Close() // which returns no error
	}
}

const (
	watchBusy = time.Millisecond // while something happens
	watchIdle = 4 * time.Millisecond
	idleAfter = 2 * time.Second
	// watchOwn is the pause while this process writes, which looks at the data version in each transaction. It grows
	// by the factor watchGrows when that is over.
	watchOwn   = 4 * time.Millisecond
	watchGrows = 4
	// watchNoticed is the longest pause between two looks where the system gives notice of
	// writes: these looks find a commit whose notice is lost. So it is in virtual time, of which
	// hours pass at once.
	watchNoticed = time.Second
	// mayMiss is the number of lost notices in succession after which none is expected any more.
	mayMiss = 3
)

// Changed implements store.Store. It reads the data version of the connection that
// writes, which changes only when another process, or another Store on the file, writes.
// The content of the change is not known.
//
// A process writes to the log before others can see its commit. So at the system's notice of a
// write Changed looks at once, and then after pauses that double. What this process has written
// itself brings nothing to look for, unless another wrote at the same time and the system made
// one notice of both: then the pauses grow by watchGrows. While it writes it takes no notices at all, and looks
// every watchOwn.
func (s *Store) Changed(ctx context.Context) (store.Change, error) {
	path := s.logPath()
	s.watch.once.Do(func() { s.watch.log, s.watch.virtual = notices(path), timeIsVirtual() })
	pace := pace{noticed: s.watch.log != nil && s.watch.missed.Load() < mayMiss, virtual: s.watch.virtual}
	timer := time.NewTimer(watchBusy)
	defer timer.Stop()
	for {
		var written chan fsnotify.Event
		if pace.listens() {
			written = s.watch.log.Events
		}
		noticed := false
		select {
		case <-s.watch.foreign:
			return store.Anything(), nil
		case <-ctx.Done():
			return store.Change{}, ctx.Err()
		case <-s.watch.closed:
			return store.Change{}, store.ErrClosed
		case event := <-written: // the zero one if the watcher is closed
			if !event.Has(fsnotify.Write) && s.watch.log.Add(path) != nil { // the log is another file now
				pace.noticed = false
			}
			noticed = true
			s.watch.missed.Store(0)
		case <-timer.C:
		}
		seen := sight{blind: true}
		if s.write.tryLock() { // otherwise its user looks, see writer.begin
			seen = s.write.look()
			s.write.unlock()
			if seen.changed && pace.pause == watchNoticed && !noticed {
				s.watch.missed.Add(1)
			}
		}
		timer.Reset(pace.next(seen, noticed))
	}
}

// logPath returns the path of the write-ahead log; "" if it is on a file system of the driver's.
func (s *Store) logPath() string {
	if s.cfg.vfs != "" {
		return ""
	}
	return s.cfg.path + "-wal"
}

// pace is how often a call of Changed looks.
type pace struct {
	noticed bool          // the system gives notice of writes
	virtual bool          // the time is
	pause   time.Duration // before the next look
	unseen  bool          // since the last notice no look has seen anything
	writes  bool          // this process writes
	stale   bool          // it has written until the last look: the next notices may be of that
	calm    bool          // the last notice was of a write of this process
}

// listens reports whether notices count before the next look. In a busy file there is no more than one in a
// pause; and while this process writes, each of its commits would wake it.
func (p *pace) listens() bool { return p.noticed && p.pause > watchBusy && !p.writes }

// next returns the pause before the next look, after one that has seen this. noticed is whether it
// was due to a notice. A notice of a write of this process mostly comes while it still writes: so the
// first look after that decides.
func (p *pace) next(seen sight, noticed bool) time.Duration {
	first := noticed || p.unseen && !seen.blind
	p.unseen = seen.blind && (noticed || p.unseen)
	stale := noticed && p.stale
	wrote := p.writes
	p.writes = seen.own && (first || wrote) || seen.blind && wrote
	p.stale = !p.writes && (wrote || stale)
	switch {
	case p.virtual && !seen.changed && !seen.own && !seen.blind:
		p.pause = min(max(2*p.pause, watchBusy), watchNoticed)
	case !p.noticed && seen.idle && !p.virtual:
		p.pause = watchIdle
	case !p.noticed:
		p.pause = watchBusy
	case p.writes, stale:
		p.pause, p.calm = watchOwn, true
	case noticed:
		p.pause, p.calm = watchBusy, false
	case p.calm:
		p.pause = min(watchGrows*p.pause, watchNoticed)
	default:
		p.pause = min(max(2*p.pause, watchBusy), watchNoticed)
	}
	return p.pause
}

// sight is what a look at the file has seen.
type sight struct {
	changed bool // another process has written since the look before
	own     bool // this process has, and no other
	idle    bool // this process has not written for some time
	blind   bool // nothing: this process writes, or has just written
}

// look reads the data version.
func (w *writer) look() sight {
	ago := time.Since(w.ended)
	if w.c == nil || w.s.closed.Load() || ago < watchBusy {
		return sight{blind: true}
	}
	seen := sight{own: w.ended != w.looked, idle: ago > idleAfter}
	w.looked = w.ended
	var version int64
	if _, err := w.c.row("PRAGMA data_version", nil, &version); err == nil && version != w.version {
		w.version = version
		w.s.watch.tell()
		seen.changed, seen.own = true, false
	}
	return seen
}
