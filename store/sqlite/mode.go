package sqlite

import (
	"errors"
	"io/fs"
	"os"
)

// private is the mode of a store's file that stet creates: for its user alone. The file has inputs and results.
const private fs.FileMode = 0o600

// create creates the store's file if there is none, so that SQLite does not create it for everybody to read.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, private)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// shareModes gives the log and the shared memory the mode of the store's file.
func (s *Store) shareModes() {
	if s.cfg.vfs == "" {
		shareMode(s.cfg.path, s.cfg.path+"-wal")
		shareMode(s.cfg.path, s.cfg.path+"-shm")
	}
}

// shareMode gives a further file of a store, such as its log, the mode of the store's file. SQLite and this package
// create such files before they have content. A file that is not there, or that belongs to another user, stays as it
// is.
func shareMode(path, further string) {
	of, err := os.Stat(path)
	if err != nil {
		return
	}
	if now, err := os.Stat(further); err == nil && now.Mode().Perm() != of.Mode().Perm() {
		_ = os.Chmod(further, of.Mode().Perm()) // it may belong to another user
	}
}
