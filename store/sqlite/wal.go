package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

// walBounds are sizes of the write-ahead log.
type walBounds struct {
	// owner is the number of pages from which on a commit of the owner moves pages into
	// the database. Other processes leave that to the owner, up to a higher number.
	owner    int
	stranger int
	// restart is the number of pages from which on the commit also waits for readers, so
	// that the log starts over.
	restart int
	// refusal is the size in bytes above which starts are refused.
	refusal int64
}

var defaultBounds = walBounds{owner: 2_000, stranger: 12_000, restart: 8_000, refusal: 1 << 30}

const (
	walWarning  = 64 << 20 // bytes
	warnEvery   = time.Minute
	restartWait = time.Second // longer than a read of ours
)

// wal keeps the write-ahead log small.
type wal struct {
	pages  int // in the log after the last commit
	tended int // pages when it was last tended
	next   int // pages when it is to be tended again
	warned time.Time

	path     string   // of the log, to reserve room; "": none is reserved
	file     *os.File // nil: not opened yet
	reserved int64    // size of the file, as far as is known
}

// Room in the log is reserved ahead of the frames. Otherwise the sync of a commit that
// makes the file longer also writes the file system's journal, which doubles the time of a
// small commit. The reserved room holds zeros, which no reader takes for a frame.
const (
	walHeader   = 32
	walFrame    = 24 + 4096
	reserveFrom = 16 * walFrame // reserve when less than this is left
	reserveMin  = 128 << 10
	reserveMax  = 1 << 20
)

// zeros are what is written into reserved room.
var zeros [reserveMax]byte

// reserve makes room for the next commits. It is called with the write lock held, so no
// other process changes the file's length. Failures are ignored: without the room commits
// only take longer.
func (l *wal) reserve() {
	end := walHeader + int64(l.pages)*walFrame
	if l.path == "" || end+reserveFrom <= l.reserved {
		return
	}
	if l.file == nil {
		var err error
		if l.file, err = os.OpenFile(l.path, os.O_WRONLY, 0); err != nil {
			return // it will be made by the commit
		}
	}
	info, err := l.file.Stat()
	if err != nil {
		l.stopReserving()
		return
	}
	if l.reserved = info.Size(); end+reserveFrom <= l.reserved {
		return
	}
	room := min(max(l.reserved/2, reserveMin), reserveMax)
	if _, err := l.file.WriteAt(zeros[:room], l.reserved); err != nil {
		l.stopReserving() // the disk may be full, which the commit will report
		return
	}
	l.reserved += room
}

func (l *wal) stopReserving() {
	if l.file != nil {
		_ = l.file.Close() // only zeros were written
	}
	l.path, l.file, l.reserved = "", nil, 0
}

// watch makes the connection report how the log grows, instead of SQLite's own
// checkpoints.
func (l *wal) watch(c *conn) error {
	c.WALHook(func(_ *sqlite3.Conn, _ string, pages int) error {
		l.pages = pages
		return nil
	})
	return c.Exec(fmt.Sprintf("PRAGMA journal_size_limit=%d", walWarning/4))
}

// tend moves the log's pages into the database when there are many. A failure does not fail
// the commit; tend tries again as the log grows.
func (w *writer) tend() {
	l, bounds := &w.wal, &w.s.cfg.wal
	limit := bounds.stranger
	if w.s.owner.held() {
		limit = bounds.owner
	}
	if l.pages < l.tended {
		l.next = 0 // it has started over
	}
	if l.pages < max(l.next, limit) {
		return
	}
	// An obstacle may last: look less often as the log grows.
	l.tended, l.next = l.pages, l.pages+max(limit, l.pages/2)
	mode := sqlite3.CHECKPOINT_PASSIVE
	if l.pages >= bounds.restart {
		mode = sqlite3.CHECKPOINT_RESTART
	}
	w.c.patience = restartWait
	_, _, err := w.c.WALCheckpoint("main", mode)
	w.c.patience = lockWait
	if err != nil && !errors.Is(err, sqlite3.BUSY) {
		w.s.cfg.log.Warn("moving the WAL into the database", "file", w.s.cfg.path, "error", err)
		w.discard() // a sync that failed is not repeated on this connection
		return
	}
	if size := w.s.walSize(); size > walWarning && time.Since(l.warned) > warnEvery {
		l.warned = time.Now()
		w.s.cfg.log.Warn("the WAL is large: a reader keeps it from starting over", "file", w.s.cfg.path, "bytes", size)
	}
}

// walSize returns the size of the log in bytes, 0 where there is none.
func (s *Store) walSize() int64 {
	info, err := os.Stat(s.cfg.path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}

// refuseStarts refuses starts when the log has grown without bound.
func (s *Store) refuseStarts(commands []store.Command) error {
	starts := false
	for i := range commands {
		starts = starts || commands[i].Start != nil
	}
	if size := s.walSize(); starts && size > s.cfg.wal.refusal {
		return fmt.Errorf("start a run: %w: the WAL of %s has %d MiB, more than %d: something keeps "+
			"a read transaction open; end it",
			store.ErrUnavailable, s.cfg.path, size>>20, s.cfg.wal.refusal>>20)
	}
	return nil
}

// syncFolder makes the names in a folder durable.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be synced there
	}
	f, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
