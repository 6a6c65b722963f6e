package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/storekit"
)

// Store is an open SQLite file. It is safe for concurrent use.
type Store struct {
	cfg   config
	clock clock
	write writer
	read  pool
	owner ownerLock
	watch watcher

	id     string
	schema int
	closed atomic.Bool
}

var _ store.Store = (*Store)(nil)

type config struct {
	path   string
	normal bool
	shared bool
	vfs    string
	wal    walBounds
	window int64 // of run numbers, see defaultWindow
	sorted int   // of a list, see defaultSorted
	restAt int   // so many items that make no run ready are put to rest, see rest
	now    func() store.Time
	log    *slog.Logger
}

// Option is an option of Open.
type Option func(*config)

// AllowLoss opens the file with synchronous=NORMAL: faster, but a power cut may take
// back the last acknowledgements. For tests, and for work that can be repeated.
func AllowLoss() Option { return func(c *config) { c.normal = true } }

// Shared makes stet's tables, whose names begin with stet_, beside those of the
// application that the file belongs to. Without it a file with other tables is
// refused, unless stet's are there already.
func Shared() Option { return func(c *config) { c.shared = true } }

// Logger gets the log of events outside of calls. The default is slog.Default.
func Logger(log *slog.Logger) Option { return func(c *config) { c.log = log } }

// Clock makes the store read the time from now, which is safe for concurrent
// use. What it returns may go back; the store's time does not. For tests.
func Clock(now func() time.Time) Option {
	return func(c *config) { c.now = func() store.Time { return store.TimeOf(now()) } }
}

// uptime returns a clock of the time since its call, which setting the machine's clock does
// not change.
func uptime() func() time.Duration {
	begun := time.Now()
	return func() time.Duration { return time.Since(begun) }
}

// VFS opens the file through a file system that was registered with the driver.
// For tests.
func VFS(name string) Option { return func(c *config) { c.vfs = name } }

// minVersion is the oldest SQLite without a bug that can lose the reset of a WAL.
const minVersion = "3.51.3"

// Open opens the store in the file and creates the file if it does not exist. It
// upgrades an older schema. ctx bounds Open alone: the wait for other processes on the
// file. Errors: store.ErrInvalid if the path cannot be that of a file; store.ErrSchema if
// the schema is newer than this binary or the file belongs to another application;
// store.ErrDamaged if the file is no SQLite file or cannot be read;
// store.ErrUnavailable if it cannot be opened or written.
func Open(ctx context.Context, path string, opts ...Option) (*Store, error) {
	cfg := config{
		path: path, now: storekit.Monotonic(time.Now, uptime()), log: slog.Default(), wal: defaultBounds,
		window: defaultWindow, sorted: defaultSorted, restAt: restAt,
	}
	for _, opt := range opts {
		opt(&cfg)
	}
	if err := checkPath(path, cfg.vfs); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, clock: clock{now: cfg.now}}
	s.write, s.read = newWriter(s), newPool(s)
	s.owner.path = path + "-owner"
	s.watch = watcher{foreign: make(chan struct{}, 1), closed: make(chan struct{})}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(classifyWithin(ctx, "open "+path, err), s.Close())
	}
	return s, nil
}

// checkPath returns the errors of a path that can be found without SQLite.
func checkPath(path, vfs string) error {
	bad := func(class error, format string, args ...any) error {
		return fmt.Errorf("open SQLite file %q: %w: %s", path, class, fmt.Sprintf(format, args...))
	}
	switch {
	case path == "":
		return bad(store.ErrInvalid, "expected the path of a file, found an empty one")
	case path == ":memory:":
		return bad(store.ErrInvalid, "expected a file; for a store in memory use package store/memory")
	case strings.HasPrefix(path, "file:"):
		return bad(store.ErrInvalid, "expected a path, found a URI; options are given to Open")
	case vfs != "":
		return nil
	}
	if dir, err := os.Stat(filepath.Dir(path)); err != nil || !dir.IsDir() {
		return bad(store.ErrUnavailable, "expected the folder %q to exist", filepath.Dir(path))
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return errors.Join(bad(store.ErrUnavailable, "expected a file that this process may see"), err)
	case info.IsDir():
		return bad(store.ErrInvalid, "expected a file, found a folder")
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return errors.Join(bad(store.ErrUnavailable, "expected a file that this process may write"), err)
	}
	return f.Close()
}

// open opens the connections and prepares the file.
func (s *Store) open(ctx context.Context) error {
	if err := s.write.open(ctx); err != nil {
		return err
	}
	c := s.write.c
	var version, mode string
	if _, err := c.row("SELECT sqlite_version()", nil, &version); err != nil {
		return err
	}
	if versionNumber(version) < versionNumber(minVersion) {
		return fmt.Errorf("%w: expected SQLite %s or newer in the driver, found %s: update github.com/ncruces/go-sqlite3",
			store.ErrSchema, minVersion, version)
	}
	list, err := migrations()
	if err != nil {
		return err
	}
	if _, err := s.mayUse(c, list); err != nil { // before the file is changed in any way
		return err
	}
	if err := c.patiently(func() error {
		_, err := c.row("PRAGMA journal_mode=WAL", nil, &mode)
		return err
	}); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: expected a file in WAL mode on a local disk, found journal mode %q",
			store.ErrUnavailable, mode)
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	// By now a new file has a log, with the schema alone.
	s.shareModes()
	if _, err := c.row("PRAGMA data_version", nil, &s.write.version); err != nil { // after the mode was changed
		return err
	}
	_, err = c.row("SELECT value FROM stet_meta WHERE key='id'", nil, &s.id)
	return err
}

func versionNumber(v string) int {
	var a, b, c int
	if _, err := fmt.Sscanf(v, "%d.%d.%d", &a, &b, &c); err != nil {
		return 0
	}
	return a*1_000_000 + b*1_000 + c
}

// Close closes the connections and releases the owner's lock. Leases that are held stay
// held, as those of a process that died.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.watch.close()
	readErr := s.read.close()
	_ = s.write.lock(context.Background()) // which does not end
	defer s.write.unlock()
	err := errors.Join(readErr, s.write.close())
	s.owner.close()
	return err
}

// Path returns the path of the file.
func (s *Store) Path() string { return s.cfg.path }

// clock reads the time so that it never goes back.
type clock struct {
	now  func() store.Time
	mu   sync.Mutex
	last store.Time
}

func (c *clock) read() store.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now > c.last {
		c.last = now
	}
	return c.last
}
