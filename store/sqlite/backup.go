package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/stet-run/stet/store"
)

const (
	// backupPages is how many pages are copied at a time; commits come between.
	backupPages = 256
	// backupRestarts is how often writes of other processes may make a copy start from
	// scratch before the rest is copied in one piece.
	backupRestarts = 3
	backupPause    = time.Millisecond
)

// Backup writes a consistent copy of the store to a new file, while others read
// and write. The file appears only when it is complete and synced; an existing
// one is not overwritten (store.ErrInvalid). Only the process's user may read it.
//
// The copy is made through the connection that writes, in pieces. So commits of this
// process in the meantime go into the copy too, and no snapshot is kept that would let
// the WAL grow.
func (s *Store) Backup(ctx context.Context, path string) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("backup to %s: %w: the file exists; choose a new name", path, store.ErrInvalid)
	}
	folder := filepath.Dir(path)
	tmp, err := os.MkdirTemp(folder, filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("backup to %s: %w: %w", path, store.ErrUnavailable, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	copied := filepath.Join(tmp, "copy")
	if err := s.copyTo(ctx, copied); err != nil {
		return classify("backup to "+path, err)
	}
	f, err := os.OpenFile(copied, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(private), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("backup to %s: %w: %w", path, store.ErrUnavailable, err)
	}
	if err := os.Link(copied, path); err != nil {
		if errors.Is(err, os.ErrExist) {
			return fmt.Errorf("backup to %s: %w: the file exists; choose a new name", path, store.ErrInvalid)
		}
		if err := os.Rename(copied, path); err != nil { // a file system without links
			return fmt.Errorf("backup to %s: %w: %w", path, store.ErrUnavailable, err)
		}
	}
	return syncFolder(folder)
}

// copying is a backup in progress. Its fields belong to the goroutine that has the
// writer's connection.
type copying struct {
	to       string
	backup   *sqlite3.Backup
	of       *conn // the connection that it belongs to
	left     int   // pages, after the last piece
	restarts int
}

func (s *Store) copyTo(ctx context.Context, file string) error {
	w, k := &s.write, &copying{to: file}
	for {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, k.end(w))
		}
		if err := w.lock(ctx); err != nil {
			return errors.Join(err, k.end(w))
		}
		if s.closed.Load() {
			w.unlock()
			return store.ErrClosed // Close has ended the backup
		}
		done, err := k.piece(ctx, w)
		if done || err != nil {
			err = errors.Join(err, k.close())
		}
		w.unlock()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(backupPause):
		}
	}
}

// piece copies some pages.
func (k *copying) piece(ctx context.Context, w *writer) (done bool, err error) {
	if w.c == nil {
		if err := w.open(ctx); err != nil {
			return false, err
		}
	}
	switch {
	case k.of == nil && w.c.copying != nil:
		return false, fmt.Errorf("%w: another backup is under way", store.ErrUnavailable)
	case k.of == nil:
		if k.backup, err = w.c.BackupInit("main", k.to); err != nil {
			return false, err
		}
		k.of, w.c.copying = w.c, k
	case k.backup == nil:
		return false, fmt.Errorf("%w: the connection was closed after an error; try again", store.ErrUnavailable)
	}
	pages := backupPages
	if k.restarts > backupRestarts {
		pages = -1
	}
	done, err = k.backup.Step(pages)
	if errors.Is(err, sqlite3.BUSY) || errors.Is(err, sqlite3.LOCKED) {
		return false, nil // another process writes; the next piece comes later
	}
	left := k.backup.Remaining()
	if k.left > 0 && left >= k.left {
		k.restarts++
	}
	k.left = left
	return done, err
}

// end ends the backup. The caller does not have the connection.
func (k *copying) end(w *writer) error {
	if k.backup == nil {
		return nil
	}
	if err := w.lock(context.Background()); err != nil {
		return err
	}
	defer w.unlock()
	return k.close()
}

// close ends the backup.
func (k *copying) close() error {
	if k.backup == nil {
		return nil
	}
	err := k.backup.Close()
	k.backup, k.of.copying = nil, nil
	return err
}
