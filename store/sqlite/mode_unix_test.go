//go:build unix

package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stet-run/stet/store"
)

// TestFilesAreForTheirUser: a new store, its further files and its backup are for their user alone. A store whose
// mode was changed keeps that mode, and its further files get it.
func TestFilesAreForTheirUser(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "stet.db")
	check := func(want fs.FileMode) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(folder, "*"))
		if err != nil || len(files) < 4 {
			t.Fatalf("expected a store with a log, shared memory and an owner's lock, found %v, %v", files, err)
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s: expected mode %o, found %o", filepath.Base(file), want, got)
			}
		}
	}
	session := func(mode fs.FileMode) {
		t.Helper()
		s, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		_, _, err = s.Acquire(t.Context(), store.Node{ID: "n", Boot: "b"}, []store.Shard{{Group: "g"}},
			store.Delay(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		check(mode)
	}
	session(0o600)
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if err := errors.Join(s.Backup(t.Context(), backup), s.Close()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup: %v, %v", info, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	session(0o640)
}
