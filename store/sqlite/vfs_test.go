package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3/vfs"
)

// change is one change of a file: a write, a truncation, a deletion, or the sync
// that makes the changes before it durable.
type change struct {
	kind string // "write", "truncate", "delete", "sync"
	file string // base name
	at   int64  // offset, or length after a truncation
	data []byte
}

// testFS is the file system of the operating system, with a record of changes and
// with faults.
type testFS struct {
	vfs.VFSFilename

	mu      sync.Mutex
	keep    bool // record changes
	changes []change
	// fault is asked before each change and returns the error that it is to end
	// with, or nil.
	fault func(change) error
}

var testFSCount atomic.Int64

// newTestFS registers a file system and returns the option that uses it.
func newTestFS(t testing.TB) (*testFS, Option) {
	fs := &testFS{VFSFilename: vfs.Find("os").(vfs.VFSFilename)}
	name := fmt.Sprintf("test-%d", testFSCount.Add(1))
	vfs.Register(name, fs)
	t.Cleanup(func() { vfs.Unregister(name) })
	return fs, VFS(name)
}

// setFault sets or, with nil, ends the faults.
func (fs *testFS) setFault(fault func(change) error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.fault = fault
}

// count returns how many changes there were.
func (fs *testFS) count() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.changes)
}

// do makes a change, unless there is a fault.
func (fs *testFS) do(c change, act func() error) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.fault != nil {
		if err := fs.fault(c); err != nil {
			return err
		}
	}
	if err := act(); err != nil {
		return err
	}
	if fs.keep {
		c.data = append([]byte(nil), c.data...)
		fs.changes = append(fs.changes, c)
	}
	return nil
}

func (fs *testFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := fs.VFSFilename.OpenFilename(name, flags)
	if err != nil {
		return nil, flags, err
	}
	return &testFile{File: f, fs: fs, name: filepath.Base(name.String())}, flags, nil
}

func (fs *testFS) Delete(name string, syncDir bool) error {
	return fs.do(change{kind: "delete", file: filepath.Base(name)},
		func() error { return fs.VFSFilename.Delete(name, syncDir) })
}

type testFile struct {
	vfs.File
	fs   *testFS
	name string
}

func (f *testFile) Unwrap() vfs.File { return f.File }

// SharedMemory is what the WAL needs.
func (f *testFile) SharedMemory() vfs.SharedMemory {
	return f.File.(vfs.FileSharedMemory).SharedMemory()
}

func (f *testFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.fs.do(change{kind: "write", file: f.name, at: off, data: p}, func() error {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *testFile) Truncate(size int64) error {
	return f.fs.do(change{kind: "truncate", file: f.name, at: size}, func() error { return f.File.Truncate(size) })
}

func (f *testFile) Sync(flags vfs.SyncFlag) error {
	return f.fs.do(change{kind: "sync", file: f.name}, func() error { return f.File.Sync(flags) })
}

// isWAL reports whether the change is one of the log.
func (c *change) isWAL() bool { return strings.HasSuffix(c.file, "-wal") }
