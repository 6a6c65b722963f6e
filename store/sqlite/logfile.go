package sqlite

import (
	"errors"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

// SQLite writes the pages of a commit to the log one by one, each after its header, and then
// syncs the log. To give the system all of them at once saves two calls for each page.

// gathering is a file system whose logs can gather writes.
type gathering struct{ vfs.VFS }

// gatheringOn registers the file system over the one of that name, "" for the system's, and
// returns its name.
func gatheringOn(base string) string {
	name := "stet-" + base
	if fs := vfs.Find(base); fs != nil {
		vfs.Register(name, gathering{fs})
	}
	return name
}

func (g gathering) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := vfsutil.WrapOpen(g.VFS, name, flags)
	return withLog(f, flags, err)
}

// OpenFilename implements vfs.VFSFilename.
func (g gathering) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := vfsutil.WrapOpenFilename(g.VFS, name, flags)
	return withLog(f, flags, err)
}

func withLog(f vfs.File, flags vfs.OpenFlag, err error) (vfs.File, vfs.OpenFlag, error) {
	if err == nil && flags&vfs.OPEN_WAL != 0 {
		f = &logFile{File: f}
	}
	return f, flags, err
}

// mostGathered bounds the memory of a log, in bytes.
const mostGathered = 1 << 20

// logFile is the log as one connection sees it. While it gathers, writes that follow each other
// are kept, and reach the file with the first call of any other kind: SQLite syncs the log before
// it shows a commit to others.
//
// It must not gather beyond a commit. What a transaction has written before, because its pages
// did not fit into memory, may never be committed, and then another process writes to the same
// place. Such writes go straight to the file.
type logFile struct {
	vfs.File
	gathers bool
	at      int64  // where kept belongs
	kept    []byte // not in the file yet
}

// gather makes the log gather until settle.
func (f *logFile) gather() { f.gathers = true }

// settle ends gather. What SQLite has not synced belongs to a commit that has failed.
func (f *logFile) settle() { f.gathers, f.kept = false, f.kept[:0] }

// flush writes what is kept. After an error it is gone, like the rest of its transaction.
func (f *logFile) flush() error {
	if len(f.kept) == 0 {
		return nil
	}
	p := f.kept
	f.kept = f.kept[:0]
	_, err := f.write(p, f.at)
	return err
}

// write writes to the file. A full disk gets its own code, which the driver gives to other errors than those of files.
func (f *logFile) write(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	if errors.Is(err, syscall.ENOSPC) {
		err = vfs.SystemError(err, sqlite3.FULL)
	}
	return n, err
}

func (f *logFile) WriteAt(p []byte, off int64) (int, error) {
	if off != f.at+int64(len(f.kept)) || len(f.kept)+len(p) > mostGathered {
		if err := f.flush(); err != nil {
			return 0, err
		}
	}
	if !f.gathers {
		return f.write(p, off)
	}
	if len(f.kept) == 0 {
		f.at = off
	}
	f.kept = append(f.kept, p...)
	return len(p), nil
}

func (f *logFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *logFile) Truncate(size int64) error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *logFile) Sync(flags vfs.SyncFlag) error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.File.Sync(flags)
}

func (f *logFile) Size() (int64, error) {
	if err := f.flush(); err != nil {
		return 0, err
	}
	return f.File.Size()
}

// Unwrap implements vfs.FileUnwrap.
func (f *logFile) Unwrap() vfs.File { return f.File }

// commit ends the write transaction. If it waits for the disk the log gathers what it writes.
func (c *conn) commit() error {
	if c.log == nil {
		f, err := c.FileControl("main", sqlite3.FCNTL_JOURNAL_POINTER)
		if err != nil {
			return err
		}
		c.log, _ = f.(*logFile)
	}
	if c.log != nil && !c.unsynced {
		c.log.gather()
		defer c.log.settle()
	}
	_, err := c.exec("COMMIT")
	return err
}
