package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stet-run/stet/internal/testing/soak"
	"github.com/stet-run/stet/store"
	"github.com/stet-run/stet/store/sqlite"
	"github.com/stet-run/stet/store/storetest"
)

// harness opens handles on one file, as several processes would have.
type harness struct {
	path  string
	clock func() time.Time
	first *sqlite.Store
	opts  []sqlite.Option
}

// fresh returns a file with a store in which nothing has happened, made long before the clock of any case: to make
// the tables was a fifth of what the cases cost.
var fresh = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "stet-sqlite-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "fresh.db")
	s, err := sqlite.Open(context.Background(), path, sqlite.AllowLoss(),
		sqlite.Clock(func() time.Time { return time.Unix(0, 0) }))
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func openHarness(opts ...sqlite.Option) storetest.Open {
	return func(t *testing.T, clock func() time.Time) storetest.Harness {
		h := &harness{path: filepath.Join(t.TempDir(), "contract.db"), clock: clock, opts: opts}
		file, err := fresh()
		if err == nil {
			err = os.WriteFile(h.path, file, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		h.first = h.open(t)
		return h
	}
}

func (h *harness) open(t testing.TB) *sqlite.Store {
	s, err := sqlite.Open(context.Background(), h.path, append(h.opts, sqlite.Clock(h.clock), sqlite.AllowLoss())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (h *harness) First() store.Store { return h.first }

func (h *harness) Join(t testing.TB) store.Store { return h.open(t) }

// Kill closes the handle: the leases stay, and the lock of the operating system
// that says that their owner lives is gone.
func (h *harness) Kill(t testing.TB, s store.Store) bool {
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return true
}

// Save keeps a backup. To set the file back the handle is closed, and another one opened.
func (h *harness) Save(t testing.TB) (restore func() store.Store) {
	kept := filepath.Join(t.TempDir(), "kept.db")
	if err := h.first.Backup(context.Background(), kept); err != nil {
		t.Fatal(err)
	}
	return func() store.Store {
		if err := h.first.Close(); err != nil {
			t.Fatal(err)
		}
		for _, suffix := range []string{"-wal", "-shm"} {
			if err := os.Remove(h.path + suffix); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		file, err := os.ReadFile(kept)
		if err == nil {
			err = os.WriteFile(h.path, file, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		h.first = h.open(t)
		return h.first
	}
}

// TestContract checks the store against the contract and against store/memory.
func TestContract(t *testing.T) { storetest.RunPart(t, openHarness(), 0, 2) }

// TestContractAtRest does it where each item that makes no run ready is put to rest at once: a quarter of it each day,
// and make check all of it.
func TestContractAtRest(t *testing.T) {
	atRest := openHarness(sqlite.RestAt(1))
	if soak.Usual(t) {
		storetest.RunPart(t, atRest, 1, 2)
		return
	}
	const parts = 4
	storetest.RunShare(t, atRest, soak.Part(t, 0, parts), parts)
}
